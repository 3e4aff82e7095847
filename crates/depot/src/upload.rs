//! `PUT /v1/blobs`

use std::sync::Arc;

use axum::{Json, body::Body, extract::State};
use domain::contract::depot::Stored;
use http::HeaderMap;
use store::PutError;

use crate::{
    caller::CallerOf,
    intake::{Fault, Intake},
    refused::{Answer, Refused},
    state::Shared,
};

/// Stores the body. It is named by nothing yet, and removed after a day if that stays so.
pub(crate) async fn put(
    State(shared): State<Arc<Shared>>,
    CallerOf(caller): CallerOf,
    headers: HeaderMap,
    body: Body,
) -> Answer<Json<Stored>> {
    caller.may_upload()?;
    let (most, patience) = (shared.options.most_blob_bytes, shared.options.patience);
    let intake = Intake::new(body, &headers, "the body", most, patience)?;
    let _turn = shared.upload().await?;
    if shared.store.is_almost_full().await.map_err(|error| Refused::store(&error))? {
        tracing::error!("an upload was refused: the disk of the store is almost full");
        return Err(Refused::unavailable("the disk of the store is almost full; try again"));
    }
    let fault = Fault::default();
    match shared.store.put_stream(intake.stream(&fault), most).await {
        Ok(store::Stored { digest, bytes }) => {
            let noted = shared.store.note_sender(caller.namespace(), &digest).await;
            noted.map_err(|error| Refused::store(&error))?;
            Ok(Json(Stored { digest: digest.as_str().to_owned(), bytes }))
        }
        Err(error) => Err(fault.get().unwrap_or_else(|| match error {
            PutError::TooLarge { limit } => Refused::too_large("the body", limit),
            PutError::Store(error) => Refused::store(&error),
            PutError::Source(error) => Refused::malformed(format!("the body cannot be read: {error}")),
        })),
    }
}
