// A plan in words, for the trace.
#include "sim/worlds/plan.hpp"

namespace conch::sim {

namespace {

using kind = fault_plan::kind;

std::string ms(nanos n) {
  auto const us = n / microsecond;
  std::string text = std::to_string(us / 1000);
  if (us % 1000 != 0) {
    std::string fraction = std::to_string(us % 1000);
    text += "." + std::string(3 - fraction.size(), '0') + fraction;
  }
  return text + " ms";
}

}  // namespace

std::string to_words(fault_plan const& f) {
  std::string const client = "client " + std::to_string(f.client);
  switch (f.what) {
    case kind::cut:
      return "the connection of " + client + " breaks; it notices after " + ms(f.length) + ", the server after " +
             ms(f.length2);
    case kind::cut_before:
      return "the next bytes of " + client + ((f.variant & 1) != 0 ? " come late and" : " are") +
             " lost with their connection; it notices after " + ms(f.length);
    case kind::cut_after:
      return "the next answer to " + client + " is lost with its connection; it notices after " + ms(f.length);
    case kind::stall_up: return "nothing from " + client + " arrives for " + ms(f.length);
    case kind::stall_down: return "nothing arrives at " + client + " for " + ms(f.length);
    case kind::pause: return client + " is paused for " + ms(f.length);
    case kind::die: return client + " dies";
    case kind::vanish: return client + " vanishes; the server notices after " + ms(f.length2);
    case kind::close: return client + " is closed";
    case kind::server_restart: return "the server restarts with its data, in " + ms(f.length2);
    case kind::server_wiped: return "the server restarts without its data, in " + ms(f.length2);
    case kind::failover: return "a replica takes over without the last writes, in " + ms(f.length2);
    case kind::role_change:
      return std::string{"the server and its replica change roles; "} +
             ((f.variant & 1) != 0 ? "its clients are sent away" : "its clients stay") +
             ((f.variant & 2) != 0 ? ", the address moves at once" : ", the address moves after " + ms(f.length2));
    case kind::promotion: {
      static char const* const states[] = {"is well", "is cut off from its replicas", "is killed", "is paused"};
      return std::string{"the master "} + states[static_cast<int>(f.master_is)] + ", a replica takes over after " +
             ms(f.length) + (f.told < 0 ? ", which nobody is told" : ", which clients are told within " + ms(f.told)) +
             "; the former master is a replica " + ms(f.length2) + " later, and its clients " +
             ((f.variant & 4) != 0 ? "are sent away" : "stay");
    }
    case kind::cut_sentinel:
      return "nothing passes between " + client + " and Sentinel " + std::to_string(f.name) + " for " + ms(f.length);
    case kind::move_slot:
      return "the slot of lock " + std::to_string(f.name) + " moves key by key for " + ms(f.length) +
             "; its former master hears of the end " + ms(f.length2) + " later, all others within " + ms(f.told);
    case kind::move_at_once:
      return "the slot of lock " + std::to_string(f.name) + " moves at once, for which its master is paused for " +
             ms(f.length) + "; all others hear of it within " + ms(f.told);
    case kind::fail_over:
      return "the master of lock " + std::to_string(f.name) + " hands over to its replica, and is one itself " +
             ms(f.length2) + " later; all others hear of it within " + ms(f.told);
    case kind::cluster_down:
      return std::string{"the Cluster is down for "} + ms(f.length) +
             ((f.variant & 1) != 0 ? "" : ", as the shard of lock " + std::to_string(f.name) + " says");
    case kind::misdirect:
      return std::string{(f.variant & 1) != 0 ? "two nodes name each other" : "a node names the wrong one"} +
             " as the master of lock " + std::to_string(f.name) + " for " + ms(f.length);
    case kind::step_back: return "the server's clock goes back by " + ms(f.length);
    case kind::step_forward: return "the server's clock jumps forward by " + ms(f.length);
    case kind::flush_scripts: return "SCRIPT FLUSH";
    case kind::delete_lock: return "an operator deletes lock " + std::to_string(f.name);
    case kind::clobber_lock: return "an operator writes something else into the key of lock " + std::to_string(f.name);
    case kind::refuse: return "the server refuses scripts for " + ms(f.length);
    case kind::refuse_inside: return "a command inside a script fails";
    case kind::intrude: return "somebody else releases and renews lock " + std::to_string(f.name);
    case kind::force: return "an operator takes lock " + std::to_string(f.name) + " away";
    case kind::forge:
      return std::string{"somebody who "} + ((f.variant & 1) != 0 ? "has read" : "guesses") + " ids publishes " +
             ((f.variant & 2) != 0 ? "revocations" : "grants") + " of lock " + std::to_string(f.name);
    case kind::spoil_fence:
      return "an operator writes " + (f.variant % 4 == 3 ? std::string{"no number"} : "a number near the limit") +
             " into the fence of lock " + std::to_string(f.name);
    case kind::set_limit:
      return "an operator sets the limit of lock " + std::to_string(f.name) + " to " + std::to_string(f.variant);
    case kind::deny:
      return "the users may not do everything for " + ms(f.length) + " (" + std::to_string(f.variant % 3) + ")";
    case kind::refuse_greeting: return "new connections are refused for " + ms(f.length);
    case kind::slow: return "the server answers " + ms(f.length2) + " late for " + ms(f.length);
  }
  return "?";
}

std::string to_words(operation const& o) {
  std::string text = o.weight == 0                      ? "takes all that is free of lock "
                     : o.how == operation::way::attempt ? "tries lock "
                                                        : "acquires lock ";
  text += std::to_string(o.name);
  if (o.inner >= 0) {
    text += " and then lock " + std::to_string(o.inner);
  }
  if (o.how == operation::way::timed) {
    text += " within " + ms(o.patience);
  }
  text += ", lease " + ms(o.lease) + (o.fixed ? " fixed" : "");
  if (o.max_hold != 0) {
    text += ", at most " + ms(o.max_hold);
  }
  if (o.at_least != 0) {
    text += ", at least " + ms(o.at_least);
  }
  static char const* const types[] = {"", "total", "partial", "terminal"};
  if (o.cancel != operation::cancels::never) {
    text += std::string{", cancels ("} + types[static_cast<int>(o.cancel)] + ") after " + ms(o.cancel_after);
  }
  if (o.cancel_again != operation::cancels::never) {
    text +=
        std::string{", once more ("} + types[static_cast<int>(o.cancel_again)] + ") after " + ms(o.cancel_again_after);
  }
  if (o.extend_after != 0) {
    text += ", asks for a lease of " + ms(o.extend_to) + " after " + ms(o.extend_after);
  }
  if (o.guard_after >= 0)
    text += ", sends a guarded write after " + ms(o.guard_after) + " that takes " + ms(o.guard_flight);
  if (o.detach) text += ", lets it go to client " + std::to_string(o.adopt_by) + " after " + ms(o.adopt_after);
  return text + ", holds for " + ms(o.hold) + (o.abandon ? " and drops it" : "");
}

}  // namespace conch::sim
