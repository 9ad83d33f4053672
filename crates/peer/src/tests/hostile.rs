//! Bytes that no correct replica sends, before TLS, instead of a hello, and after one.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use fastrand::Rng;
use prost::Message as _;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use vfs::ReplicaSlot;

use super::replica::{Replica, TestSet, quick};
use crate::wire::{Header, Hello, HelloReply, Role, encode_frame, read_short, write_short};
use crate::{Identity, Lane, Message, PROTOCOL_VERSIONS, Settings};

/// TLS as the replica of this identity, without what follows.
async fn dial(identity: &Identity, address: &str) -> TlsStream<TcpStream> {
    let config = crate::tls::dial_config(identity).expect("a config");
    let name = crate::tls::replica_name(identity.set, ReplicaSlot(1));
    let name = ServerName::try_from(name).expect("a name");
    let socket = TcpStream::connect(address).await.expect("connects");
    TlsConnector::from(config)
        .connect(name, socket)
        .await
        .expect("TLS")
}

fn hello(identity: &Identity, incarnation: u64) -> Hello {
    Hello {
        version_min: *PROTOCOL_VERSIONS.start(),
        version_max: *PROTOCOL_VERSIONS.end(),
        set: Bytes::copy_from_slice(&identity.set.0),
        slot: identity.slot.0.into(),
        incarnation,
        data_lanes: 1,
        ..Hello::default()
    }
}

/// A control lane whose hello was accepted.
async fn greeted(identity: &Identity, address: &str, incarnation: u64) -> TlsStream<TcpStream> {
    let mut stream = dial(identity, address).await;
    write_short(&mut stream, &hello(identity, incarnation))
        .await
        .expect("writes");
    let reply: HelloReply = read_short(&mut stream).await.expect("answers");
    assert!(reply.hello.is_some(), "{reply:?}");
    stream
}

/// Sends, and waits until the other side has closed.
async fn send_and_be_closed(mut stream: TlsStream<TcpStream>, bytes: &[u8]) {
    // It may close before it has read everything.
    let _ = stream.write_all(bytes).await;
    let _ = stream.flush().await;
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
}

fn frame(header: &Header, payload: &[u8]) -> Vec<u8> {
    let mut out = BytesMut::new();
    encode_frame(header, payload.len(), &mut out);
    out.extend_from_slice(payload);
    out.to_vec()
}

fn one_way(sequence: u64) -> Header {
    Header {
        sequence,
        role: Role::OneWay.into(),
        kind: 77,
        ..Header::default()
    }
}

/// A replica is well when a correct peer still gets a message through.
async fn assert_well(replica: &Replica, set: &TestSet, slot: u16) {
    let good = Replica::start(set.identity(slot), 1_000, quick()).await;
    let session = good.connect(1, &replica.address).ready().await;
    session
        .send(Lane::Control, Message::new(5, "well?"))
        .await
        .expect("sends");
    replica.recorder.until_messages(1).await;
    assert_eq!(
        replica.recorder.kinds(Lane::Control),
        [5],
        "nothing hostile was handed up"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_instead_of_tls_or_a_hello_harms_nobody() {
    let set = TestSet::of(2).await;
    let first = Replica::start(set.identity(1), 1, quick()).await;
    let mut random = Rng::with_seed(42);
    for _ in 0..20 {
        let garbage: Vec<u8> = (0..random.u64(..2000)).map(|_| random.u8(..)).collect();
        let mut socket = TcpStream::connect(&first.address).await.expect("connects");
        let _ = socket.write_all(&garbage).await;
        drop(socket);
        let mut prefixed = (garbage.len() as u32).to_be_bytes().to_vec();
        prefixed.extend_from_slice(&garbage);
        for bytes in [garbage, prefixed, vec![0xff; 64]] {
            let mut stream = dial(set.identity(2), &first.address).await;
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
        }
    }
    assert_well(&first, &set, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hellos_that_lie_are_refused() {
    let set = TestSet::of(2).await;
    let first = Replica::start(set.identity(1), 1, quick()).await;
    let identity = set.identity(2);
    let honest = hello(identity, 1);
    let lies = [
        Hello {
            slot: 1,
            ..honest.clone()
        },
        Hello {
            slot: 70_000,
            ..honest.clone()
        },
        Hello {
            set: Bytes::from_static(b"short"),
            ..honest.clone()
        },
        Hello {
            incarnation: 0,
            ..honest.clone()
        },
        Hello {
            lane: 4,
            ..honest.clone()
        },
        Hello {
            lane: u32::MAX,
            peer_incarnation: 1,
            ..honest.clone()
        },
    ];
    for lie in lies {
        let mut stream = dial(identity, &first.address).await;
        write_short(&mut stream, &lie).await.expect("writes");
        let reply: HelloReply = read_short(&mut stream).await.expect("answers");
        let refusal = reply.refusal.expect("refused");
        assert!(!refusal.reason.is_empty());
    }
    assert_well(&first, &set, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_that_break_the_rules_end_the_connection_and_hand_nothing_up() {
    let set = TestSet::of(2).await;
    let first = Replica::start(set.identity(1), 1, quick()).await;
    let crc = crc32c::crc32c(b"payload");
    let good = Header {
        payload_checksum: crc,
        ..one_way(1)
    };
    let huge = Header {
        plain_bytes: u32::MAX,
        ..good.clone()
    };
    let mut flipped = frame(&good, b"payload");
    flipped[14] ^= 1;
    let mut long = frame(&good, b"payload");
    long[4..8].copy_from_slice(&u32::MAX.to_be_bytes());
    let broken = [
        ("a huge header", vec![0xff; 40]),
        ("a huge payload", long),
        ("a flipped bit", flipped),
        ("a wrong checksum", frame(&good, b"paYload")),
        (
            "a left out message",
            frame(
                &Header {
                    sequence: 2,
                    ..good.clone()
                },
                b"payload",
            ),
        ),
        ("a bomb", frame(&huge, b"payload")),
        (
            "an unknown role",
            frame(
                &Header {
                    role: 99,
                    ..good.clone()
                },
                b"payload",
            ),
        ),
        (
            "a numbered quiet frame",
            frame(
                &Header {
                    role: 0,
                    ..good.clone()
                },
                b"payload",
            ),
        ),
        (
            "an early acknowledgement",
            frame(
                &Header {
                    acknowledged: 5,
                    ..good
                },
                b"payload",
            ),
        ),
    ];
    for (incarnation, (what, bytes)) in (1..).zip(broken) {
        let stream = greeted(set.identity(2), &first.address, incarnation).await;
        println!("{what}");
        send_and_be_closed(stream, &bytes).await;
    }
    assert_well(&first, &set, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_ignores_credit_is_cut_off() {
    let set = TestSet::of(2).await;
    let first = Replica::start(set.identity(1), 1, quick()).await;
    // The handler takes no data, so that nothing returns credit.
    first.recorder.data_permits.forget_permits(1 << 30);
    let identity = set.identity(2);
    let _control = greeted(identity, &first.address, 1).await;
    let mut stream = dial(identity, &first.address).await;
    let data = Hello {
        lane: 2,
        peer_incarnation: 1,
        ..hello(identity, 1)
    };
    write_short(&mut stream, &data).await.expect("writes");
    let reply: HelloReply = read_short(&mut stream).await.expect("answers");
    let credit = reply.hello.expect("accepted").credit;
    let payload = vec![0; 1 << 20];
    let checksum = crc32c::crc32c(&payload);
    let (mut reader, mut writer) = tokio::io::split(stream);
    let reading = tokio::spawn(async move {
        let mut rest = Vec::new();
        let _ = reader.read_to_end(&mut rest).await;
    });
    let mut sequence = 0;
    while writer
        .write_all(&frame(
            &Header {
                payload_checksum: checksum,
                ..one_way(sequence + 1)
            },
            &payload,
        ))
        .await
        .is_ok()
    {
        sequence += 1;
    }
    reading.await.expect("closed");
    let held = first.endpoint.status()[0].held_bytes;
    assert!(
        sequence << 20 >= credit - (2 << 20),
        "credit of {credit} bytes can be used"
    );
    assert!(held <= credit, "{held} bytes held, {credit} allowed");
}

#[test]
fn decoders_take_any_bytes() {
    let mut random = Rng::with_seed(7);
    for _ in 0..20_000 {
        let bytes: Vec<u8> = (0..random.u64(..120)).map(|_| random.u8(..)).collect();
        let _ = Header::decode(&bytes[..]);
        let _ = Hello::decode(&bytes[..]);
        let certificate = rustls::pki_types::CertificateDer::from(bytes);
        let _ = crate::tls::replica_of(&certificate);
    }
}

/// Connections to a port from one address that say nothing.
async fn silent(from: &str, to: &str, count: usize) -> Vec<TcpStream> {
    let mut silent = Vec::new();
    for _ in 0..count {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        let from = format!("{from}:0").parse().expect("an address");
        socket.bind(from).expect("every address of 127/8 is ours");
        let to = to.parse().expect("an address");
        silent.push(socket.connect(to).await.expect("connects"));
    }
    silent
}

/// A caller that could reach the port kept a restarted replica out of its set, with silent connections
/// in all places.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_connections_keep_no_replica_out() {
    let set = TestSet::of(2).await;
    for from in ["127.0.0.2", "127.0.0.1"] {
        let settings = Settings {
            handshake_timeout: Duration::from_secs(3600),
            ..quick()
        };
        let places = settings.handshakes_max;
        let first = Replica::start(set.identity(1), 1, settings).await;
        let _silent = silent(from, &first.address, 3 * places).await;
        let entered = assert_well(&first, &set, 2);
        let entered = tokio::time::timeout(Duration::from_secs(60), entered).await;
        assert!(entered.is_ok(), "kept out by connections from {from}");
    }
}
