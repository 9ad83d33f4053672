//! Frames as a TUN device with offloads delivers them: a virtio header, then an IPv4 packet that
//! may be a super-frame, many segments under one set of headers.
//!
//! A super-frame crosses the testbed as a whole, which is cheap. But a line drops single packets.
//! So a run of its segments can be cut out as a separate frame.
//!
//! What must never enter: when and why packets are dropped; see `line`.

use std::net::Ipv4Addr;
use std::ops::Range;

/// Length of `struct virtio_net_hdr` (virtio 1.2, section 5.1.6, without `num_buffers`).
const VIRTIO: usize = 10;

/// `gso_type` values of the virtio header, and the bit that may be set beside them.
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_UDP_L4: u8 = 5;
const GSO_ECN: u8 = 0x80;

/// `flags` bit of the virtio header: the transport checksum holds only the pseudo header's sum, and
/// the device that puts the packet on a wire completes it.
const NEEDS_CSUM: u8 = 1;

/// TCP flags (RFC 9293, section 3.1) that belong to one segment of a super-frame only.
const TCP_FIN: u8 = 0x01;
const TCP_PSH: u8 = 0x08;
const TCP_CWR: u8 = 0x80;

/// The properties of a frame that a line needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Its destination.
    pub(crate) destination: Ipv4Addr,
    /// Bytes of IP and transport headers, which every segment carries on a wire.
    headers: usize,
    /// Bytes after the headers.
    payload: usize,
    /// Payload bytes of every segment but the last.
    segment: usize,
}

impl Shape {
    /// Reads the headers. None if it is not IPv4, contradicts itself, or is a super-frame of a
    /// kind that was not requested.
    pub(crate) fn of(frame: &[u8]) -> Option<Self> {
        let (virtio, packet) = frame.split_at_checked(VIRTIO)?;
        let ip = packet.get(..20)?;
        let destination = Ipv4Addr::from(*packet.get(16..20)?.first_chunk()?);
        let ip_header = usize::from(ip[0] & 0x0f) * 4;
        let is_whole = usize::from(u16::from_be_bytes([ip[2], ip[3]])) == packet.len();
        if ip[0] >> 4 != 4 || ip_header < 20 || !is_whole {
            return None;
        }
        let transport = packet.get(ip_header..)?;
        let (transport_header, segment) = match virtio[1] & !GSO_ECN {
            GSO_NONE => (0, transport.len()),
            GSO_TCPV4 => (usize::from(*transport.get(12)? >> 4) * 4, gso_size(virtio)),
            GSO_UDP_L4 => (8, gso_size(virtio)),
            _ => return None,
        };
        let payload = transport.len().checked_sub(transport_header)?;
        // Segments beyond a device's MTU of 1500 or of a few bytes only would be an error of the sender.
        let is_sane = segment > 0 || payload == 0;
        is_sane.then_some(Self {
            destination,
            headers: ip_header + transport_header,
            payload,
            segment: segment.max(1),
        })
    }

    /// The number of packets on a wire.
    pub(crate) fn segments(&self) -> u32 {
        // The payload is below 64 KiB.
        self.payload.div_ceil(self.segment).max(1) as u32
    }

    /// The number of bytes of these segments on a wire, from the IP header on.
    pub(crate) fn wire_bytes(&self, segments: &Range<u32>) -> u64 {
        let headers = self.headers * segments.len();
        (headers + self.span(segments).len()) as u64
    }

    /// Length of the frame that [`Shape::cut`] makes of these segments.
    pub(crate) fn cut_length(&self, segments: &Range<u32>) -> usize {
        VIRTIO + self.headers + self.span(segments).len()
    }

    /// Copies some segments of a super-frame into `to`, which is [`Shape::cut_length`] long, as a
    /// separate frame with corrected headers.
    pub(crate) fn cut(&self, frame: &[u8], segments: &Range<u32>, to: &mut [u8]) {
        let span = self.span(segments);
        let headers = VIRTIO + self.headers;
        to[..headers].copy_from_slice(&frame[..headers]);
        to[headers..].copy_from_slice(&frame[headers + span.start..headers + span.end]);
        let is_tcp = frame[1] & !GSO_ECN == GSO_TCPV4;
        if segments.len() == 1 {
            // A single segment is a plain packet without gso_type and gso_size.
            to[1] = GSO_NONE;
            to[4..6].fill(0);
        }
        let packet = &mut to[VIRTIO..];
        let ip_header = usize::from(packet[0] & 0x0f) * 4;
        mend_ip(packet, ip_header, segments.start);
        if is_tcp {
            let is_last = segments.end == self.segments();
            mend_tcp(&mut packet[ip_header..], &span, is_last);
        } else {
            let length = packet.len() - ip_header;
            packet[ip_header + 4..ip_header + 6].copy_from_slice(&be(length));
        }
        if to[0] & NEEDS_CSUM != 0 {
            mend_pseudo_sum(to, ip_header);
        }
    }

    /// The payload bytes of these segments.
    fn span(&self, segments: &Range<u32>) -> Range<usize> {
        let end = self.payload.min(segments.end as usize * self.segment);
        let start = end.min(segments.start as usize * self.segment);
        start..end
    }
}

/// Payload bytes per segment, in the byte order of the machine.
fn gso_size(virtio: &[u8]) -> usize {
    usize::from(u16::from_ne_bytes([virtio[4], virtio[5]]))
}

/// Corrects length, identification and checksum (RFC 791, section 3.1). Segment `first` gets the
/// identification that the kernel would have given it.
fn mend_ip(packet: &mut [u8], ip_header: usize, first: u32) {
    let length = packet.len();
    packet[2..4].copy_from_slice(&be(length));
    let identification = u16::from_be_bytes([packet[4], packet[5]]).wrapping_add(first as u16);
    packet[4..6].copy_from_slice(&identification.to_be_bytes());
    packet[10..12].fill(0);
    let sum = folded(&packet[..ip_header], 0);
    packet[10..12].copy_from_slice(&(!sum).to_be_bytes());
}

/// Corrects sequence number and flags of segments whose payload was at `span` of the super-frame.
fn mend_tcp(segment: &mut [u8], span: &Range<usize>, is_last: bool) {
    let mut sequence = [0; 4];
    sequence.copy_from_slice(&segment[4..8]);
    let sequence = u32::from_be_bytes(sequence).wrapping_add(span.start as u32);
    segment[4..8].copy_from_slice(&sequence.to_be_bytes());
    if span.start > 0 {
        segment[13] &= !TCP_CWR;
    }
    if !is_last {
        segment[13] &= !(TCP_FIN | TCP_PSH);
    }
}

/// Sets the transport checksum as NEEDS_CSUM requires: the sum of only the pseudo header (RFC 9293,
/// section 3.1), which contains the length.
fn mend_pseudo_sum(frame: &mut [u8], ip_header: usize) {
    let offset = u16::from_ne_bytes([frame[8], frame[9]]);
    let packet = &mut frame[VIRTIO..];
    let protocol = u32::from(packet[9]);
    let length = (packet.len() - ip_header) as u32;
    let sum = folded(&packet[12..20], protocol + length);
    let at = ip_header + usize::from(offset);
    if let Some(field) = packet.get_mut(at..at + 2) {
        field.copy_from_slice(&sum.to_be_bytes());
    }
}

/// The ones' complement sum of 16-bit words (RFC 1071), not complemented. `bytes` is of even length.
fn folded(bytes: &[u8], start: u32) -> u16 {
    let words = bytes.chunks_exact(2);
    let sum: u32 = words
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
        .sum();
    let sum = sum + start;
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// A length below 64 KiB in network order.
fn be(length: usize) -> [u8; 2] {
    (length as u16).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A TCP super-frame with `payload` bytes 0, 1, 2, ... in segments of `segment` bytes.
    fn super_frame(payload: usize, segment: u16) -> Vec<u8> {
        let mut frame = vec![NEEDS_CSUM, GSO_TCPV4, 0, 0];
        frame.extend(segment.to_ne_bytes());
        frame.extend([20u16.to_ne_bytes(), 16u16.to_ne_bytes()].concat());
        frame.extend([0x45, 0]);
        frame.extend(be(40 + payload));
        frame.extend([0xff, 0xff, 0x40, 0, 64, 6, 0, 0]);
        frame.extend([10, 200, 1, 1, 10, 200, 2, 1]);
        frame.extend([0, 1, 0, 2]);
        frame.extend(u32::MAX.to_be_bytes());
        frame.extend([0, 0, 0, 0, 0x50, TCP_CWR | TCP_PSH | TCP_FIN, 0, 0]);
        frame.extend([0; 4]);
        frame.extend((0..payload).map(|byte| byte as u8));
        frame
    }

    fn cut(frame: &[u8], segments: Range<u32>) -> Vec<u8> {
        let shape = Shape::of(frame).unwrap();
        let mut to = vec![0xee; shape.cut_length(&segments)];
        shape.cut(frame, &segments, &mut to);
        to
    }

    #[test]
    fn a_super_frame_counts_as_its_segments() {
        let frame = super_frame(250, 100);
        let shape = Shape::of(&frame).unwrap();
        assert_eq!(shape.destination, Ipv4Addr::new(10, 200, 2, 1));
        assert_eq!(shape.segments(), 3);
        assert_eq!(shape.wire_bytes(&(0..3)), 250 + 3 * 40);
        assert_eq!(shape.wire_bytes(&(2..3)), 90);
    }

    #[test]
    fn segments_are_cut_out_with_headers_of_their_own() {
        let frame = super_frame(250, 100);
        let front = cut(&frame, 0..2);
        assert_eq!(Shape::of(&front).unwrap().segments(), 2);
        assert_eq!(front[VIRTIO + 33], TCP_CWR);
        assert_eq!(front[VIRTIO + 24..VIRTIO + 28], u32::MAX.to_be_bytes());
        assert_eq!(front[VIRTIO + 40..], frame[VIRTIO + 40..VIRTIO + 240]);

        let back = cut(&frame, 2..3);
        assert_eq!((back[1], &back[4..6]), (GSO_NONE, &[0, 0][..]));
        assert_eq!(back[VIRTIO + 4..VIRTIO + 6], 1u16.to_be_bytes());
        assert_eq!(back[VIRTIO + 33], TCP_PSH | TCP_FIN);
        assert_eq!(back[VIRTIO + 24..VIRTIO + 28], 199u32.to_be_bytes());
        assert_eq!(back[VIRTIO + 40..], frame[VIRTIO + 240..]);
    }

    #[test]
    fn checksums_of_cut_frames_are_right() {
        let back = cut(&super_frame(250, 100), 1..3);
        assert_eq!(folded(&back[VIRTIO..VIRTIO + 20], 0), 0xffff);
        let pseudo = folded(&back[VIRTIO + 12..VIRTIO + 20], 6 + 20 + 150);
        assert_eq!(back[VIRTIO + 36..VIRTIO + 38], pseudo.to_be_bytes());
    }

    /// The headers of a super-frame of three segments as a TUN device of Linux 6.18 delivered it: virtio,
    /// IPv4, and TCP with a timestamp. 3920 bytes of payload followed.
    const FROM_LINUX: [u8; 62] = [
        0x01, 0x01, 0x34, 0x00, 0xa8, 0x05, 0x14, 0x00, 0x10, 0x00, 0x45, 0x00, 0x0f, 0x84, 0x51,
        0x1a, 0x40, 0x00, 0x40, 0x06, 0xc1, 0xc8, 0x0a, 0xc8, 0x01, 0x01, 0x0a, 0xc8, 0x02, 0x01,
        0xea, 0x84, 0x9a, 0xff, 0x9f, 0x89, 0xff, 0x27, 0x36, 0x0b, 0x90, 0xd4, 0x80, 0x18, 0x00,
        0x10, 0x28, 0x08, 0x00, 0x00, 0x01, 0x01, 0x08, 0x0a, 0xaf, 0xd8, 0xf9, 0x8e, 0x77, 0x3b,
        0xea, 0x0a,
    ];

    #[test]
    fn all_segments_of_a_real_frame_are_that_frame() {
        let mut frame = FROM_LINUX.to_vec();
        frame.resize(62 + 3920, 0x5a);
        assert_eq!(Shape::of(&frame).unwrap().segments(), 3);
        assert!(cut(&frame, 0..3) == frame, "checksums and all");
    }

    #[test]
    fn what_is_no_ipv4_packet_has_no_shape() {
        let frame = super_frame(250, 100);
        assert!(Shape::of(&[]).is_none());
        for length in 0..frame.len() {
            assert!(Shape::of(&frame[..length]).is_none(), "{length}");
        }
        let mut version_6 = frame.clone();
        version_6[VIRTIO] = 0x65;
        assert!(Shape::of(&version_6).is_none());
        let mut no_segment_size = frame;
        no_segment_size[4..6].fill(0);
        assert!(Shape::of(&no_segment_size).is_none());
    }
}
