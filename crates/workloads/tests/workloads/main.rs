//! The workload controllers: the same cases on the real kube-apiserver, without kube-controller-manager and
//! kube-scheduler, and on the embedded API server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

/// Makes each case a test on both API servers.
macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        mod real {
            $(
                #[tokio::test]
                async fn $name() {
                    super::$name($crate::world::World::new($crate::world::Server::Real).await).await;
                }
            )*
        }
        mod embedded {
            $(
                #[tokio::test]
                async fn $name() {
                    super::$name($crate::world::World::new($crate::world::Server::Embedded).await).await;
                }
            )*
        }
    };
}

mod deployments;
mod garbage;
mod namespaces;
mod pods;
mod services;
mod world;
