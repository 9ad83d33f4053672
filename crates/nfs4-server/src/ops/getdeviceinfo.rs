//! GETDEVICEINFO: the addresses of the data servers of a layout (RFC 8881, section 18.40).

use nfs4::callback::NotifyDeviceidType4;
use nfs4::{
    Bitmap4, DeviceAddr4, FileLayoutDsAddr4, GetdeviceinfoArgs, GetdeviceinfoRes,
    GetdeviceinfoResOk, MultipathList4, Netaddr4, NfsStat4, layout_type,
};
use xdr::{Bytes, Writer};

use crate::compound::Compound;
use crate::layouts::DeviceId;

/// The size of a `device_addr4` without its body.
const FRAME_BYTES: usize = 8;

pub(crate) async fn getdeviceinfo(
    compound: &Compound<'_>,
    args: GetdeviceinfoArgs,
) -> GetdeviceinfoRes {
    match device_info(compound, args).await {
        Ok((body, notification)) => {
            let size = FRAME_BYTES + body.len().next_multiple_of(4);
            // With no space for a body, only the notifications are set (RFC 8881, section 18.40.3).
            if args.maxcount != 0 && size > args.maxcount as usize {
                return GetdeviceinfoRes::TooSmall(u32::try_from(size).unwrap_or(u32::MAX));
            }
            GetdeviceinfoRes::Ok(GetdeviceinfoResOk {
                device_addr: DeviceAddr4 {
                    layout_type: args.layout_type,
                    body: match args.maxcount {
                        0 => Bytes::new(),
                        _ => body,
                    },
                },
                notification,
            })
        }
        Err(status) => GetdeviceinfoRes::Err(status),
    }
}

async fn device_info(
    compound: &Compound<'_>,
    args: GetdeviceinfoArgs,
) -> Result<(Bytes, Bitmap4), NfsStat4> {
    let client = compound.session()?.client;
    if args.layout_type != layout_type::NFSV4_1_FILES {
        return Err(NfsStat4::UnknownLayoutType);
    }
    let device = DeviceId(args.device_id.0);
    let servers = servers_of(compound, device).await.ok_or(NfsStat4::NoEnt)?;
    let mut writer = Writer::new();
    writer.write(&FileLayoutDsAddr4 {
        stripe_indices: (0..).take(servers.len()).collect(),
        multipath_ds_list: servers,
    });
    let gone = u32::from(NotifyDeviceidType4::Delete);
    let wanted = args.notify_types.contains(gone);
    let mut state = compound.service.state();
    let told = state.watch_device(client, device, wanted);
    let notification = told.then_some(gone).into_iter().collect();
    Ok((writer.into_bytes(), notification))
}

/// The addresses of each data server of a device, of any export.
async fn servers_of(compound: &Compound<'_>, device: DeviceId) -> Option<Vec<MultipathList4>> {
    let exports = compound.service.namespace.exports();
    for layouts in exports.iter().filter_map(|export| export.layouts.as_ref()) {
        if let Some(servers) = layouts.device(device).await {
            let addresses = |server: Vec<std::net::SocketAddr>| {
                MultipathList4(server.into_iter().map(Netaddr4::from).collect())
            };
            return Some(servers.into_iter().map(addresses).collect());
        }
    }
    None
}
