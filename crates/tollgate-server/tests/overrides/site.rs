//! The stores that two services share.

use tollgate_testkit::servers::{Cluster, Persistence, Sentinels, Server, Settings, Software};

/// Servers of one kind.
#[derive(Debug)]
pub(crate) enum Site {
    Single(Box<Server>),
    Sentinels(Sentinels),
    Cluster(Cluster),
}

/// Which servers there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SiteKind {
    Single,
    Sentinels,
    Cluster,
}

impl Site {
    /// Starts them. A single server keeps what it has acknowledged when it is killed.
    pub(crate) fn start(kind: SiteKind, software: Software) -> Self {
        match kind {
            SiteKind::Single => {
                Self::Single(Box::new(Settings::new(software).persistence(Persistence::EveryWrite).start()))
            }
            SiteKind::Sentinels => Self::Sentinels(Sentinels::start(software)),
            SiteKind::Cluster => Self::Cluster(Cluster::start(software).calm()),
        }
    }

    /// The URL for a service.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Single(server) => format!("redis://testkit:testkit@{}", server.address()),
            Self::Sentinels(sentinels) => {
                let all: Vec<String> =
                    sentinels.sentinels().iter().map(|sentinel| sentinel.address().to_string()).collect();
                format!("redis+sentinel://testkit:testkit@{}/{}", all.join(","), Sentinels::NAME)
            }
            Self::Cluster(cluster) => {
                format!("redis+cluster://testkit:testkit@{}", cluster.nodes()[0].address())
            }
        }
    }

    /// What a service has to be told besides.
    pub(crate) fn arguments(&self) -> &'static [&'static str] {
        match self {
            // The policies of a request count different keys.
            Self::Cluster(_) => &["--store-across-slots", "reserve"],
            Self::Single(_) | Self::Sentinels(_) => &[],
        }
    }

    /// All servers that take writes.
    pub(crate) fn primaries(&self) -> Vec<&Server> {
        match self {
            Self::Single(server) => vec![server],
            Self::Sentinels(sentinels) => vec![sentinels.primary()],
            Self::Cluster(cluster) => {
                let is_primary = |node: &&Server| node.is_running() && node.info("role") == "master";
                cluster.nodes().iter().filter(is_primary).collect()
            }
        }
    }

    /// Expects that sentinels have failed over so often and no more: of another failover, nobody knows what it has lost.
    pub(crate) fn expect_failovers(&self, wanted: usize) {
        let Self::Sentinels(sentinels) = self else { return };
        let log = sentinels.sentinels()[0].log();
        let seen = log.lines().filter(|line| line.contains("+switch-master")).count();
        assert_eq!(seen, wanted, "sentinels failed over without being told: this machine is too busy");
    }

    /// The only server.
    pub(crate) fn single(&self) -> &Server {
        match self {
            Self::Single(server) => server,
            other => panic!("{other:?} has several"),
        }
    }

    pub(crate) fn sentinels(&self) -> &Sentinels {
        match self {
            Self::Sentinels(sentinels) => sentinels,
            other => panic!("{other:?} has none"),
        }
    }
}
