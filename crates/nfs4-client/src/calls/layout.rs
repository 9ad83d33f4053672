//! Layouts of files: a client uses them to read and write directly at data servers (RFC 8881, chapters 12 and 13).

use nfs4::{
    ArgOp4, Bitmap4, Deviceid4, FileLayout4, FileLayoutDsAddr4, GetdeviceinfoArgs,
    GetdeviceinfoRes, LayoutIomode4, LayoutcommitArgs, LayoutcommitResOk, LayoutgetArgs,
    LayoutgetRes, LayoutgetResOk, Layoutreturn4, LayoutreturnFile4, Layoutupdate4, NfsFh4, ResOp4,
    Stateid4, layout_type,
};
use xdr::{Bytes, Reader};

use crate::client::{Client, take};
use crate::error::Error;
use crate::ops;

/// The maximum size of layouts and addresses, in bytes: the limit of Linux.
const BODY_BYTES: u32 = 4096;

impl Client {
    /// A layout of a whole file, with the new stateid of the client's layouts of the file. `stateid` is the earlier one,
    /// or that of an open.
    pub async fn layout(
        &self,
        file: &NfsFh4,
        stateid: Stateid4,
        iomode: LayoutIomode4,
    ) -> Result<(LayoutgetResOk, FileLayout4), Error> {
        let get = ArgOp4::Layoutget(LayoutgetArgs {
            signal_layout_avail: false,
            layout_type: layout_type::NFSV4_1_FILES,
            iomode,
            offset: 0,
            length: u64::MAX,
            minlength: 0,
            stateid,
            maxcount: BODY_BYTES,
        });
        let mut results = self.call(vec![ops::putfh(file), get]).await?;
        let Some(ResOp4::Layoutget(LayoutgetRes::Ok(got))) = results.next_result() else {
            return Err(Error::Unexpected("LAYOUTGET"));
        };
        let [layout] = &got.layouts[..] else {
            return Err(Error::Unexpected("LAYOUTGET"));
        };
        let layout = Reader::new(layout.content.body.clone()).read()?;
        Ok((got, layout))
    }

    /// The data servers of a layout.
    pub async fn device(&self, device_id: Deviceid4) -> Result<FileLayoutDsAddr4, Error> {
        let get = ArgOp4::Getdeviceinfo(GetdeviceinfoArgs {
            device_id,
            layout_type: layout_type::NFSV4_1_FILES,
            maxcount: BODY_BYTES,
            notify_types: Bitmap4::EMPTY,
        });
        let mut results = self.call(vec![get]).await?;
        match results.next_result() {
            Some(ResOp4::Getdeviceinfo(GetdeviceinfoRes::Ok(got))) => {
                Ok(Reader::new(got.device_addr.body).read()?)
            }
            _ => Err(Error::Unexpected("GETDEVICEINFO")),
        }
    }

    /// Reports that a file was written through its layout, up to the byte at `last`.
    pub async fn commit_layout(
        &self,
        file: &NfsFh4,
        stateid: Stateid4,
        last: u64,
    ) -> Result<LayoutcommitResOk, Error> {
        let commit = ArgOp4::Layoutcommit(LayoutcommitArgs {
            offset: 0,
            length: last.saturating_add(1),
            reclaim: false,
            stateid,
            last_write_offset: Some(last),
            time_modify: None,
            layoutupdate: Layoutupdate4 {
                layout_type: layout_type::NFSV4_1_FILES,
                body: Bytes::new(),
            },
        });
        let mut results = self.call(vec![ops::putfh(file), commit]).await?;
        Ok(take!(results, Layoutcommit))
    }

    /// Returns all layouts of a file. The result is what is left of them, which is nothing.
    pub async fn return_layout(
        &self,
        file: &NfsFh4,
        stateid: Stateid4,
    ) -> Result<Option<Stateid4>, Error> {
        let all = LayoutreturnFile4 {
            offset: 0,
            length: u64::MAX,
            stateid,
            body: Bytes::new(),
        };
        let give = ops::layoutreturn(Layoutreturn4::File(all));
        let mut results = self.call(vec![ops::putfh(file), give]).await?;
        Ok(take!(results, Layoutreturn).stateid)
    }
}
