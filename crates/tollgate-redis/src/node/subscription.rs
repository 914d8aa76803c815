//! Channels that a server publishes on.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::connect::{PeerRole, connect, polled, polled_in_time};
use super::connection::{Connection, Pump};
use crate::address::Address;
use crate::calls::Calls;
use crate::resp::{RespValue, command};
use crate::settings::CheckedSettings;
use crate::trouble::ConnectTrouble;

/// The interval at which a server must answer while it publishes nothing.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);

/// Channels that a sentinel publishes on, until it does.
pub(crate) struct Subscription {
    connection: Connection,
    pump: Pump,
}

impl Subscription {
    /// Subscribes within the time that is allowed for a connection.
    pub(crate) async fn open(
        sentinel: &Address,
        checked: &CheckedSettings,
        channels: &[&str],
    ) -> Result<Self, ConnectTrouble> {
        let (connection, mut pump) = connect(sentinel, PeerRole::Sentinel, checked).await?;
        // One by one, because each channel has a reply of its own.
        let commands: Vec<_> = channels.iter().map(|channel| command("SUBSCRIBE").arg(channel)).collect();
        let replies = polled_in_time(&mut pump, &connection, &Calls::of_each(&commands), checked).await?;
        let refused = replies.iter().find_map(|reply| match reply {
            RespValue::Error(error) => Some(error),
            _ => None,
        });
        match refused {
            Some(error) => Err(ConnectTrouble::of_reply(error, sentinel, "subscribe (SUBSCRIBE)")),
            None if confirm(&replies, channels) => Ok(Self { connection, pump }),
            None => Err(ConnectTrouble::Unfit("a sentinel does not confirm what it is to announce")),
        }
    }

    /// Returns when something was published or nothing can be any more: the connection has ended, or the server does
    /// not answer within this time.
    pub(crate) async fn ended(&mut self, patience: Duration) {
        let ping = Calls::of(&command("PING"));
        loop {
            tokio::select! {
                biased;
                () = &mut self.pump => return,
                () = sleep(SIGN_OF_LIFE) => {}
            }
            let sign = timeout(patience, polled(&mut self.pump, &self.connection, &ping)).await;
            if !matches!(sign, Ok(Ok(_))) {
                return;
            }
        }
    }
}

/// Returns whether these are the replies to subscriptions to these channels, each with the number of subscriptions so
/// far. A sentinel that confirms something else never announces a failover, so the store must not rely on it.
fn confirm(replies: &[RespValue], channels: &[&str]) -> bool {
    let expected = (1..).zip(channels).map(|(count, channel)| {
        let texts = ["subscribe", channel].map(|text| RespValue::Bulk(text.into()));
        RespValue::Array([&texts[..], &[RespValue::Int(count)]].concat())
    });
    replies.iter().eq(expected.collect::<Vec<_>>().iter())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::super::breaker::Breaker;
    use super::*;
    use crate::time::instant;

    const PATIENCE: Duration = Duration::from_millis(250);

    fn subscription() -> (Subscription, DuplexStream) {
        let (near, far) = duplex(99);
        let breaker = Breaker::new(Duration::from_millis(20), instant(), Arc::default());
        let (connection, pump) = Connection::new(near, breaker);
        (Subscription { connection, pump }, far)
    }

    #[test]
    fn only_the_channels_that_were_asked_for_are_confirmed() {
        let reply = |channel: &str, count| {
            let texts = ["subscribe", channel].map(|text| RespValue::Bulk(text.into()));
            RespValue::Array([&texts[..], &[RespValue::Int(count)]].concat())
        };
        assert!(confirm(&[reply("a", 1), reply("b", 2)], &["a", "b"]));
        for replies in [
            vec![],
            vec![reply("a", 1)],
            vec![reply("a", 1), reply("b", 1)],
            vec![reply("a", 1), reply("c", 2)],
            vec![reply("a", 1), reply("b", -2)],
            vec![reply("a", 1), reply("b", 2), reply("c", 3)],
            vec![RespValue::Simple("OK".into()), RespValue::Nil],
        ] {
            assert!(!confirm(&replies, &["a", "b"]), "{replies:?}");
        }
    }

    async fn answer_pings(far: &mut DuplexStream, count: usize) {
        for _ in 0..count {
            far.read_exact(&mut [0; 14]).await.unwrap();
            far.write_all(b"*2\r\n$4\r\npong\r\n$0\r\n\r\n").await.unwrap();
        }
    }

    /// A sentinel that hangs keeps its connections and announces nothing, so it was relied on for ever.
    #[tokio::test(start_paused = true)]
    async fn it_ends_when_the_server_does_not_answer() {
        let (mut subscription, mut far) = subscription();
        let begun = instant();
        let ended = tokio::spawn(async move { subscription.ended(PATIENCE).await });
        answer_pings(&mut far, 3).await;
        assert!(!ended.is_finished());
        ended.await.unwrap();
        assert_eq!(begun.elapsed(), 4 * SIGN_OF_LIFE + PATIENCE);
    }

    #[tokio::test(start_paused = true)]
    async fn it_ends_when_something_is_published_or_the_connection_is_closed() {
        const PUBLISHED: &[u8] = b"*3\r\n$7\r\nmessage\r\n$2\r\n+x\r\n$1\r\ny\r\n";
        for text in [PUBLISHED, b""] {
            let (mut subscription, mut far) = subscription();
            let begun = instant();
            let ended = tokio::spawn(async move { subscription.ended(PATIENCE).await });
            if text.is_empty() {
                drop(far);
            } else {
                far.write_all(text).await.unwrap();
            }
            ended.await.unwrap();
            assert_eq!(begun.elapsed(), Duration::ZERO);
        }
    }

    /// Then it is taken for the answer to a PING, and that answer is unexpected.
    #[tokio::test(start_paused = true)]
    async fn it_ends_when_something_is_published_while_an_answer_is_awaited() {
        let (mut subscription, mut far) = subscription();
        let ended = tokio::spawn(async move { subscription.ended(PATIENCE).await });
        far.read_exact(&mut [0; 14]).await.unwrap();
        far.write_all(b"*3\r\n$7\r\nmessage\r\n$2\r\n+x\r\n$1\r\ny\r\n").await.unwrap();
        far.write_all(b"*2\r\n$4\r\npong\r\n$0\r\n\r\n").await.unwrap();
        let begun = instant();
        ended.await.unwrap();
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
