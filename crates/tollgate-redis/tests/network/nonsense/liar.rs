//! A proxy in front of a server that changes a number of a reply: real servers do not answer nonsense.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

/// What becomes of a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Change {
    Flip(u32),
    Negate,
    Become(i64),
    Vanish,
    ComeTwice,
}

/// Which replies are changed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    /// The packed integers of the script.
    Script,
    /// The slots of a Cluster.
    Slots,
}

/// A lie about the number at this place of the next reply of this kind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lie {
    pub(crate) kind: Kind,
    pub(crate) place: usize,
    pub(crate) change: Change,
}

/// The proxy. It ends when it is dropped, and its connections with their peers.
pub(crate) struct Liar {
    address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    lie: Option<Lie>,
    /// The numbers of the last reply of each kind, as the server wrote them.
    last: Vec<(Kind, Vec<i64>)>,
    /// How many replies of these kinds there were.
    replies: u64,
    is_over: bool,
}

impl Change {
    /// All that can become of a number, with the codes of the script.
    pub(crate) fn all() -> Vec<Self> {
        let known = [-1, -2, -3, -4, -10, 0, i64::MIN, i64::MAX].map(Self::Become);
        (0..64).map(Self::Flip).chain([Self::Negate, Self::Vanish, Self::ComeTwice]).chain(known).collect()
    }

    /// The same, but of the bits only every eighth.
    pub(crate) fn some(first: usize) -> Vec<Self> {
        let is_due = |bit: u32| bit as usize % 8 == first % 8;
        Self::all().into_iter().filter(|change| !matches!(change, Self::Flip(bit) if !is_due(*bit))).collect()
    }

    pub(crate) fn of(self, number: i64) -> Vec<i64> {
        match self {
            Self::Flip(bit) => vec![number ^ (1 << bit)],
            Self::Negate => vec![number.wrapping_neg()],
            Self::Become(other) => vec![other],
            Self::Vanish => vec![],
            Self::ComeTwice => vec![number, number],
        }
    }
}

impl Liar {
    pub(crate) fn before(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::<Mutex<Shared>>::default();
        let listening = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming() {
                if listening.lock().unwrap().is_over {
                    return;
                }
                carry(client.unwrap(), TcpStream::connect(server).unwrap(), &listening);
            }
        });
        Self { address, shared }
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Tells this lie once.
    pub(crate) fn tell(&self, lie: Lie) {
        self.shared().lie = Some(lie);
    }

    /// Whether the lie was told.
    pub(crate) fn has_told(&self) -> bool {
        self.shared().lie.is_none()
    }

    /// The numbers of the last reply of this kind.
    pub(crate) fn last(&self, kind: Kind) -> Vec<i64> {
        let shared = self.shared();
        shared.last.iter().find(|(of, _)| *of == kind).map(|(_, numbers)| numbers.clone()).unwrap()
    }

    /// How many replies have passed that can be changed.
    pub(crate) fn replies(&self) -> u64 {
        self.shared().replies
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap()
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.shared().is_over = true;
        drop(TcpStream::connect(self.address));
    }
}

fn carry(client: TcpStream, server: TcpStream, shared: &Arc<Mutex<Shared>>) {
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    thread::spawn(move || {
        let _ = io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(Shutdown::Both);
    });
    let (shared, mut server, mut client) = (Arc::clone(shared), server, client);
    thread::spawn(move || {
        let (mut unread, mut chunk) = (Vec::new(), [0; 16 * 1024]);
        while let Ok(length @ 1..) = server.read(&mut chunk) {
            unread.extend_from_slice(&chunk[..length]);
            while let Some((reply, end)) = Reply::read(&unread) {
                let said = shared.lock().unwrap().pass(&reply, &unread[..end]);
                unread.drain(..end);
                if client.write_all(&said).is_err() {
                    return;
                }
            }
        }
        let _ = client.shutdown(Shutdown::Both);
    });
}

impl Shared {
    /// What the client gets in place of this reply.
    fn pass(&mut self, reply: &Reply, bytes: &[u8]) -> Vec<u8> {
        let Some(kind) = reply.kind() else { return bytes.to_vec() };
        self.replies += 1;
        let mut numbers = Vec::new();
        reply.write(&mut |number| {
            numbers.push(number);
            vec![number]
        });
        self.last.retain(|(of, _)| *of != kind);
        self.last.push((kind, numbers));
        let Some(lie) = self.lie.take_if(|lie| lie.kind == kind) else { return bytes.to_vec() };
        let mut places = 0..;
        reply.write(&mut |number| {
            if places.next() == Some(lie.place) { lie.change.of(number) } else { vec![number] }
        })
    }
}

/// A reply of which only numbers matter.
enum Reply {
    Int(i64),
    /// In MessagePack, as the script writes them.
    Packed(Vec<i64>),
    Array(Vec<Self>),
    Other(Vec<u8>),
}

impl Reply {
    /// The first reply and its length; none if it is incomplete.
    fn read(bytes: &[u8]) -> Option<(Self, usize)> {
        let end = bytes.windows(2).position(|two| two == b"\r\n")? + 2;
        let number = || -> i64 { std::str::from_utf8(&bytes[1..end - 2]).unwrap().parse().unwrap() };
        match bytes[0] {
            b':' => Some((Self::Int(number()), end)),
            b'$' if number() >= 0 => {
                let all = end + number() as usize + 2;
                let text = bytes.get(..all)?;
                let packed = unpacked(&text[end..all - 2]).map(Self::Packed);
                Some((packed.unwrap_or_else(|| Self::Other(text.to_vec())), all))
            }
            b'*' if number() >= 0 => {
                let (mut values, mut at) = (Vec::new(), end);
                for _ in 0..number() {
                    let (value, length) = Self::read(&bytes[at..])?;
                    values.push(value);
                    at += length;
                }
                Some((Self::Array(values), at))
            }
            _ => Some((Self::Other(bytes[..end].to_vec()), end)),
        }
    }

    fn kind(&self) -> Option<Kind> {
        match self {
            Self::Packed(_) => Some(Kind::Script),
            Self::Array(values) if matches!(values.first(), Some(Self::Array(_))) => Some(Kind::Slots),
            _ => None,
        }
    }

    /// Its bytes, with these numbers in place of each of its own.
    fn write(&self, change: &mut impl FnMut(i64) -> Vec<i64>) -> Vec<u8> {
        match self {
            Self::Int(number) => {
                change(*number).iter().flat_map(|number| format!(":{number}\r\n").into_bytes()).collect()
            }
            Self::Packed(numbers) => {
                let numbers: Vec<i64> = numbers.iter().flat_map(|number| change(*number)).collect();
                let mut packed = vec![0xdc];
                packed.extend(u16::try_from(numbers.len()).unwrap().to_be_bytes());
                for number in numbers {
                    packed.push(0xd3);
                    packed.extend(number.to_be_bytes());
                }
                [format!("${}\r\n", packed.len()).as_bytes(), &packed, b"\r\n"].concat()
            }
            Self::Array(values) => {
                // An integer may become none or two.
                let written: Vec<_> = values.iter().map(|value| (value, value.write(change))).collect();
                let count: usize = written
                    .iter()
                    .map(|(value, bytes)| match value {
                        Self::Int(_) => bytes.iter().filter(|byte| **byte == b':').count(),
                        _ => 1,
                    })
                    .sum();
                let written: Vec<u8> = written.into_iter().flat_map(|(_, bytes)| bytes).collect();
                [format!("*{count}\r\n").into_bytes(), written].concat()
            }
            Self::Other(bytes) => bytes.clone(),
        }
    }
}

/// The integers of an array in MessagePack.
fn unpacked(bytes: &[u8]) -> Option<Vec<i64>> {
    let (count, mut rest) = match bytes.split_first()? {
        (short @ 0x90..=0x9f, rest) => (usize::from(short & 0x0f), rest),
        _ => return None,
    };
    let mut numbers = Vec::new();
    for _ in 0..count {
        let (kind, after) = rest.split_first()?;
        let (length, is_signed) = match kind {
            0x00..=0x7f | 0xe0..=0xff => {
                numbers.push(i64::from(kind.cast_signed()));
                rest = after;
                continue;
            }
            0xcc..=0xcf => (1 << (kind - 0xcc), false),
            0xd0..=0xd3 => (1 << (kind - 0xd0), true),
            _ => return None,
        };
        let (digits, after) = after.split_at_checked(length)?;
        let first = if is_signed && digits[0] >= 0x80 { -1 } else { 0 };
        numbers.push(digits.iter().fold(first, |number, byte| number << 8 | i64::from(*byte)));
        rest = after;
    }
    Some(numbers)
}
