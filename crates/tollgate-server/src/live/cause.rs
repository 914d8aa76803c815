//! Why content is read again.

/// The reason for reading content again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Something changed in the folder of a file.
    Watch,
    /// A whole file was renamed over one of them.
    Rename,
    /// No change is known, but the last look was a while ago.
    Interval,
    /// A signal.
    Signal,
    /// An administrator.
    Request,
    /// A management server sent it.
    Xds,
}

impl Cause {
    /// Returns whether the read was not requested, so that the files may be unchanged.
    pub(crate) const fn is_guess(self) -> bool {
        matches!(self, Self::Watch | Self::Rename | Self::Interval)
    }

    /// Returns whether the files may be half written.
    pub(crate) const fn is_doubtful(self) -> bool {
        matches!(self, Self::Watch | Self::Interval)
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Watch => "watch",
            Self::Rename => "rename",
            Self::Interval => "interval",
            Self::Signal => "SIGHUP",
            Self::Request => "request",
            Self::Xds => "xds",
        }
    }
}
