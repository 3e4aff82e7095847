//! `get`.

use http::StatusCode;

use super::Request;
use crate::http::{self as responses, ApiResponse, Representation};
use crate::status_error::StatusError;

impl Request {
    pub(super) fn get(&self) -> Result<ApiResponse, StatusError> {
        let entry = self.stored()?;
        if self.form == Representation::Whole {
            return Ok(responses::json(StatusCode::OK, self.with_type(&entry.bytes)));
        }
        let object = self.resource.read(&entry.bytes)?;
        Ok(responses::json(StatusCode::OK, self.present_one(&object)?))
    }
}
