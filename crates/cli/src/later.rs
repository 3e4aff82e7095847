//! Arguments that are made when their command is given.
//!
//! All commands together have hundreds of flags, and every Pod starts this program several times to use one command.

use clap::{ArgMatches, Args, Command, Error, FromArgMatches, builder::Resettable};

/// The arguments of one command.
#[derive(Debug)]
pub struct Later<A>(pub A);

impl<A: Args> Args for Later<A> {
    fn augment_args(command: Command) -> Command {
        command.defer(|command| described(command, A::augment_args))
    }

    fn augment_args_for_update(command: Command) -> Command {
        command.defer(|command| described(command, A::augment_args_for_update))
    }
}

impl<A: FromArgMatches> FromArgMatches for Later<A> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        A::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

/// Adds arguments. What the command says of itself stays: groups of arguments have words of their own.
fn described(command: Command, add: fn(Command) -> Command) -> Command {
    let (about, long_about) = (command.get_about().cloned(), command.get_long_about().cloned());
    add(command).about(Resettable::from(about)).long_about(Resettable::from(long_about))
}
