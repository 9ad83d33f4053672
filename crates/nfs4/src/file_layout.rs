//! The bodies of layouts of files and of their devices (RFC 8881, sections 13.2 and 13.3), and the size from which
//! on they are useful (section 5.12.4).

use xdr::{Bytes, xdr_struct};

use crate::layout::{Deviceid4, LAYOUT_BODY_MAX};
use crate::{Bitmap4, NfsFh4, Offset4, Utf8str};

/// The maximum numbers that are decoded: data servers of a device, addresses of a data server, filehandles of a layout.
pub const DATA_SERVERS_MAX: usize = 4096;

/// Bits of [`FileLayout4::util`], `nfl_util4` (RFC 8881, section 13.3).
pub mod file_layout_util {
    /// Bytes lie on their data server without gaps.
    pub const DENSE: u32 = 0x1;
    /// COMMIT goes to the metadata server.
    pub const COMMIT_THRU_MDS: u32 = 0x2;
    /// All flags.
    pub const FLAGS: u32 = 0x3f;
    /// The stripe unit, a multiple of 64 bytes.
    pub const STRIPE_UNIT_SIZE: u32 = 0xffff_ffc0;
}

xdr_struct! {
    /// The places of a file's bytes, `nfsv4_1_file_layout4`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct FileLayout4 {
        /// The data servers.
        pub deviceid: Deviceid4,
        /// The stripe unit, with flags (see [`file_layout_util`]).
        pub util: u32,
        /// The place of the device at which the pattern begins.
        pub first_stripe_index: u32,
        /// The offset in the file where the pattern begins.
        pub pattern_offset: Offset4,
        /// What the file is called at the data servers; one for each where packing is sparse, one in all where they are the same,
        /// none where it is that of the metadata server.
        pub fh_list: Vec<NfsFh4> [<= DATA_SERVERS_MAX],
    }
}

xdr_struct! {
    /// Data servers, `nfsv4_1_file_layout_ds_addr4`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct FileLayoutDsAddr4 {
        /// The order of stripes: places in the list of data servers.
        pub stripe_indices: Vec<u32> [<= DATA_SERVERS_MAX],
        /// The addresses of each data server.
        pub multipath_ds_list: Vec<MultipathList4> [<= DATA_SERVERS_MAX],
    }
}

xdr::xdr_newtype! {
    /// Addresses of one data server, `multipath_list4`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct MultipathList4(pub Vec<Netaddr4> [<= DATA_SERVERS_MAX]);
}

xdr_struct! {
    /// An address of a server, `netaddr4` (RFC 8881, section 3.3.9; RFC 5665).
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Netaddr4 {
        /// The transport, `tcp` or `tcp6`.
        pub netid: Utf8str,
        /// The address, with the port as two further numbers.
        pub addr: Utf8str,
    }
}

impl From<std::net::SocketAddr> for Netaddr4 {
    /// An address of TCP as RFC 5665, section 5.2.3, writes it.
    fn from(address: std::net::SocketAddr) -> Self {
        let [high, low] = address.port().to_be_bytes();
        let netid = if address.is_ipv4() { "tcp" } else { "tcp6" };
        Self {
            netid: netid.into(),
            addr: format!("{}.{high}.{low}", address.ip()).as_str().into(),
        }
    }
}

impl Netaddr4 {
    /// The TCP address, if it is one.
    pub fn socket(&self) -> Option<std::net::SocketAddr> {
        if !matches!(self.netid.as_str()?, "tcp" | "tcp6") {
            return None;
        }
        let mut parts = self.addr.as_str()?.rsplitn(3, '.');
        let (low, high) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let address = parts.next()?.parse().ok()?;
        Some(std::net::SocketAddr::new(
            address,
            u16::from_be_bytes([high, low]),
        ))
    }
}

xdr_struct! {
    /// The size from which on layouts are useful, for each kind, `mdsthreshold4`.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct Mdsthreshold4 {
        /// One for each kind.
        pub hints: Vec<ThresholdItem4> [<= 64],
    }
}

xdr_struct! {
    /// The size from which on a kind of layout is useful, `threshold_item4`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ThresholdItem4 {
        /// The kind, of [`crate::layout_type`].
        pub layout_type: u32,
        /// The present values, bits of [`threshold`].
        pub hintset: Bitmap4,
        /// The values, each a `length4`, in the order of their bits.
        pub hintlist: Bytes [<= LAYOUT_BODY_MAX],
    }
}

/// Bits of [`ThresholdItem4::hintset`].
pub mod threshold {
    /// Smaller files are better read through the metadata server.
    pub const READ_SIZE: u32 = 0;
    /// Smaller files are better written through the metadata server.
    pub const WRITE_SIZE: u32 = 1;
    /// Smaller reads are better made through the metadata server.
    pub const READ_IOSIZE: u32 = 2;
    /// Smaller writes are better made through the metadata server.
    pub const WRITE_IOSIZE: u32 = 3;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_with_their_port_as_two_numbers() {
        for (address, netid, written) in [
            ("192.0.2.1:2049", "tcp", "192.0.2.1.8.1"),
            ("[2001:db8::1]:65535", "tcp6", "2001:db8::1.255.255"),
        ] {
            let address: std::net::SocketAddr = address.parse().unwrap();
            let netaddr = Netaddr4::from(address);
            assert_eq!(netaddr.netid.as_str(), Some(netid));
            assert_eq!(netaddr.addr.as_str(), Some(written));
            assert_eq!(netaddr.socket(), Some(address));
        }
        for (netid, addr) in [
            ("udp", "192.0.2.1.8.1"),
            ("tcp", "192.0.2.1"),
            ("tcp", "192.0.2.1.8.256"),
            ("tcp", ""),
        ] {
            let other = Netaddr4 {
                netid: netid.into(),
                addr: addr.into(),
            };
            assert_eq!(other.socket(), None, "{other:?}");
        }
    }
}
