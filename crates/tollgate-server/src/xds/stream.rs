//! One stream: a request for the limits, and an answer to each response.

use std::future::pending;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use http::Uri;
use http::uri::PathAndQuery;
use prost_types::value::Kind;
use prost_types::{Struct, Value};
use tokio::sync::mpsc;
use tokio::time::{self, MissedTickBehavior, Sleep};
use tollgate_policy::Printable;
use tonic::client::Grpc;
use tonic::{Code, Response, Status};
use tonic_prost::ProstCodec;
use tracing::error;

use super::connect::XdsConnection;
use super::limits::XdsLimits;
use super::messages::envoy::config::core::v3::Node;
use super::messages::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};
use super::messages::google;
use super::resources::TYPE_URL;
use super::settings::{XdsNode, XdsSettings};
use crate::observe::shortened::shortened;
use crate::observe::with_sources::WithSources;

const METHOD: &str = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";

/// The number of answers that the server has not read. It sends nothing before it has read one.
const MAX_UNREAD: usize = 16;

/// The time between two notes that the live limits are those of the server.
const PULSE: Duration = Duration::from_secs(1);

/// The longest text of a server that is repeated, in characters.
const MAX_WORDS: usize = 400;

/// The wait before the answer to a response that was rejected already. Servers of go-control-plane send such a response
/// again as soon as it is rejected, and a valid one only after that answer.
const REPEAT_WAIT: Duration = Duration::from_millis(500);

/// A stream and its state.
struct XdsStream<'a> {
    limits: &'a Arc<XdsLimits>,
    node: Node,
    requests: mpsc::Sender<DiscoveryRequest>,
    max_message_bytes: usize,
    /// The last version of this stream that was accepted.
    accepted: Option<String>,
    /// The last response that was rejected, without its nonce, and the reason.
    rejected: Option<(u64, String)>,
    /// An answer that waits.
    delayed: Option<(Pin<Box<Sleep>>, DiscoveryRequest)>,
}

/// Follows the limits over a connection until the stream ends. Returns why it ended. `note_open` is called, perhaps again
/// and again, while the server keeps it open: servers that refuse the call do so at once, and those without limits say
/// nothing.
pub(super) async fn follow(
    connection: XdsConnection,
    settings: &XdsSettings,
    limits: &Arc<XdsLimits>,
    mut note_open: impl FnMut(),
) -> String {
    const UNREAD: &str = "the server does not read what it is sent";
    let (requests, receiver) = mpsc::channel(MAX_UNREAD);
    let mut stream = XdsStream {
        limits,
        node: node(&settings.node),
        requests,
        max_message_bytes: settings.max_message_bytes,
        accepted: None,
        rejected: None,
        delayed: None,
    };
    // Without a version, even after another stream had one: a server that was started again may use it for other
    // limits.
    let Ok(()) = stream.send(stream.request(String::new(), None)) else { return UNREAD.to_owned() };
    let responses = responses(connection, settings, receiver);
    let mut responses = pin!(responses);
    let mut pulse = time::interval(PULSE);
    // Without this, the first tick would come at once.
    pulse.reset();
    pulse.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let answered = tokio::select! {
            response = responses.next() => match response {
                None => return "the server has ended the stream".to_owned(),
                Some(Err(status)) => return stream.fail(&status),
                Some(Ok(response)) => {
                    note_open();
                    stream.answer(response).await
                }
            },
            () = delay(&mut stream.delayed) => {
                let request = stream.delayed.take().map(|(_, request)| request);
                request.map_or(Ok(()), |request| stream.send(request))
            }
            _ = pulse.tick() => {
                note_open();
                // Before it has sent something, it may have other limits.
                if stream.accepted.is_some() {
                    limits.note_in_step();
                }
                Ok(())
            }
        };
        if answered.is_err() {
            return UNREAD.to_owned();
        }
    }
}

/// Calls the server. It may answer only when it has something to send.
fn responses(
    connection: XdsConnection,
    settings: &XdsSettings,
    receiver: mpsc::Receiver<DiscoveryRequest>,
) -> impl stream::Stream<Item = Result<DiscoveryResponse, Status>> {
    let requests = stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|request| (request, receiver))
    });
    let origin = Uri::builder().scheme(settings.server.scheme()).authority(settings.server.authority.clone());
    // All of its parts are valid.
    let origin = origin.path_and_query("/").build().unwrap_or_default();
    let mut call = tonic::Request::new(requests);
    *call.metadata_mut() = settings.headers.clone();
    let max_message_bytes = settings.max_message_bytes;
    let opened = async move {
        let mut grpc = Grpc::with_origin(connection, origin).max_decoding_message_size(max_message_bytes);
        grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
        let codec = ProstCodec::<DiscoveryRequest, DiscoveryResponse>::default();
        let opened = grpc.streaming(call, PathAndQuery::from_static(METHOD), codec).await;
        // The connection lives as long as the messages are read.
        opened.map(Response::into_inner).map(|messages| {
            stream::unfold((messages, grpc), |(mut messages, grpc)| async move {
                messages.message().await.transpose().map(|message| (message, (messages, grpc)))
            })
        })
    };
    stream::once(opened).try_flatten()
}

async fn delay(delayed: &mut Option<(Pin<Box<Sleep>>, DiscoveryRequest)>) {
    match delayed {
        Some((wait, _)) => wait.await,
        None => pending().await,
    }
}

impl XdsStream<'_> {
    /// Applies a response, and answers whether it is accepted.
    async fn answer(&mut self, response: DiscoveryResponse) -> Result<(), UnreadAnswers> {
        // An answer to an earlier response means nothing any more.
        self.delayed = None;
        let (version, nonce) = (response.version_info.clone(), response.nonce.clone());
        let digest = digest(&response);
        let known = self.rejected.as_ref().filter(|(known, _)| *known == digest);
        if let Some((_, reason)) = known {
            let request = self.request(nonce, Some(reason.clone()));
            self.delayed = Some((Box::pin(time::sleep(REPEAT_WAIT)), request));
            return Ok(());
        }
        let limits = Arc::clone(self.limits);
        // A large response takes a while; requests are answered meanwhile.
        let applied = tokio::task::spawn_blocking(move || limits.apply(response)).await;
        let applied = applied.unwrap_or_else(|failure| {
            error!(%failure, "an update over xDS ended unexpectedly: nothing has changed");
            let reason = "the update could not be read, because of a bug in Tollgate".to_owned();
            self.limits.reject(&reason);
            Err(reason)
        });
        match applied {
            Ok(()) => {
                self.accepted = Some(version);
                self.rejected = None;
                self.send(self.request(nonce, None))
            }
            Err(reason) => {
                let request = self.request(nonce, Some(reason.clone()));
                self.rejected = Some((digest, reason));
                self.send(request)
            }
        }
    }

    /// Returns a request with the last accepted version. An answer to a response has its nonce, and the reason if it is
    /// rejected.
    fn request(&self, response_nonce: String, rejection: Option<String>) -> DiscoveryRequest {
        DiscoveryRequest {
            version_info: self.accepted.clone().unwrap_or_default(),
            node: Some(self.node.clone()),
            // All of them.
            resource_names: Vec::new(),
            type_url: TYPE_URL.to_owned(),
            response_nonce,
            error_detail: rejection
                .map(|message| google::rpc::Status { code: Code::InvalidArgument.into(), message }),
        }
    }

    fn send(&self, request: DiscoveryRequest) -> Result<(), UnreadAnswers> {
        self.requests.try_send(request).map_err(|_| UnreadAnswers)
    }

    /// Returns why the stream has failed. A response that is too large cannot be answered, so the server learns of it
    /// only by the end of the stream.
    fn fail(&self, status: &Status) -> String {
        let max = self.max_message_bytes;
        match too_large(status, max) {
            Some(bytes) => {
                let reason = format!(
                    "a response has {bytes} bytes, more than XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES ({max})"
                );
                self.limits.reject(&reason);
                reason
            }
            None => words(status),
        }
    }
}

/// Returns the length of the response, if its length is the error. A server can fail with the same code.
fn too_large(status: &Status, max: usize) -> Option<&str> {
    let rest = status.message().strip_prefix("Error, decoded message length too large: found ")?;
    rest.strip_suffix(&format!(" bytes, the limit is: {max} bytes"))
        .filter(|_| status.code() == Code::OutOfRange)
}

/// Returns the words of the server, or of the connection.
fn words(status: &Status) -> String {
    match std::error::Error::source(status) {
        Some(source) => WithSources(source).to_string(),
        None => {
            let message = shortened(&Printable(status.message()).to_string(), MAX_WORDS);
            format!("{}: {message}", status.code().description())
        }
    }
}

/// The server has not read the last answers.
struct UnreadAnswers;

/// Returns a digest of a response without its nonce. Servers send resources in any order.
fn digest(response: &DiscoveryResponse) -> u64 {
    let DiscoveryResponse { version_info, resources, type_url, nonce: _ } = response;
    let mut resources: Vec<(&str, &[u8])> =
        resources.iter().map(|resource| (resource.type_url.as_str(), resource.value.as_slice())).collect();
    resources.sort_unstable();
    // Only equality with the last response matters.
    BuildHasherDefault::<DefaultHasher>::default().hash_one((version_info, type_url, resources))
}

fn node(node: &XdsNode) -> Node {
    let text = |text: &String| Value { kind: Some(Kind::StringValue(text.clone())) };
    let fields = node.metadata.iter().map(|(key, value)| (key.clone(), text(value))).collect();
    Node {
        id: node.id.clone(),
        cluster: String::new(),
        metadata: Some(Struct { fields }).filter(|metadata| !metadata.fields.is_empty()),
        user_agent_name: "tollgate".to_owned(),
        user_agent_version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}
