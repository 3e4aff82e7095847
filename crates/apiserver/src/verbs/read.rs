//! `get`.

use http::StatusCode;

use super::Request;
use crate::http::{self as answers, Answer, Form};
use crate::refusal::Refusal;

impl Request {
    pub(super) fn get(&self) -> Result<Answer, Refusal> {
        let entry = self.stored()?;
        if self.form == Form::Whole {
            return Ok(answers::json(StatusCode::OK, self.with_type(&entry.bytes)));
        }
        let object = self.resource.read(&entry.bytes)?;
        Ok(answers::json(StatusCode::OK, self.present_one(&object)?))
    }
}
