// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "client/completions.hpp"

#include "client/completion.hpp"

#include <utility>

namespace conch::detail {

void completions::acquired(hold_node& n, bool is_granted, error_code why) {
  if (!n.runs_on) own_executor_.end_operation();
  if (is_granted) {
    ended_.emplace_back(ended::kind::granted, node_ref{&n}, why);
  } else {
    ended_.emplace_back(ended::kind::not_granted, nodes_.remove(n), why);
  }
}

void completions::released(hold_node& n, bool was_held, error_code why) {
  if (!n.runs_on) own_executor_.end_operation();
  ended_.emplace_back(ended::kind::released, nodes_.remove(n), why, was_held);
}

void completions::call(std::shared_ptr<pending_call> c, node_ref keeps, error_code why, bool is_held) {
  ended_.emplace_back(ended::kind::call, std::move(keeps), why, is_held, std::move(c));
}

/// Calls call(handler, arguments of the handler...) for an operation that has ended. `e` is not used afterwards.
template <class Call>
void completions::end_of_operation(ended& e, Call const& call) {
  if (e.what == ended::kind::released) {
    release_handler handler{std::move(e.node->on_released)};
    e.node = {};
    call(std::move(handler), e.why, e.was_held);
    return;
  }
  bool const granted = e.what == ended::kind::granted;
  acquire_handler handler{std::move(e.node->on_acquired)};
  client_number const number = granted ? client_number{} : client_of(e.node.get());
  hold h = granted ? hold{std::move(e.node)} : hold{number};
  e.node = {};
  call(std::move(handler), granted ? error_code{} : e.why, std::move(h));
}

void completions::complete(ended& e) {
  if (e.what == ended::kind::call) return e.call->complete(own_executor_.get(), e.why, e.was_held);
  if (e.node->runs_on) {
    auto runs_on = std::exchange(e.node->runs_on, {});
    end_of_operation(e, [&](auto handler, auto... args) {
      post_completion(own_executor_.get(), std::move(runs_on), std::move(handler), std::move(args)...);
    });
  } else if (is_in_turns_) {
    if (turns_.needs_turn()) want_turn();
    turns_.push(std::move(e));
  } else {
    end_of_operation(e, [&]<class Handler, class... Args>(Handler handler, Args... args) {
      own_executor_.execute(completion<Handler, Args...>{std::move(handler), {std::move(args)...}});
    });
  }
}

void completions::want_turn() {
  own_executor_.execute([this, keep = owner_.keep()] {
    begin_turn();
    end_turn();
  });
}

void completions::begin_turn() noexcept {
  if (is_in_turns_) turns_.begin();
}

void completions::end_turn() {
  if (!turns_.in_turn()) return;
  struct end {
    completions& all;
    ~end() { all.leave_turn(); }
  } const at_the_end{*this};
  turns_.run([this](ended& e) {
    end_of_operation(e, []<class Handler, class... Args>(Handler handler, Args... args) {
      completion<Handler, Args...>{std::move(handler), {std::move(args)...}}();
    });
  });
}

void completions::leave_turn() {
  if (turns_.leave()) want_turn();
}

void completions::drop() {
  for (ended const& e : ended_) {
    if (e.call) e.call->drop();
  }
  ended_.clear();
  turns_.clear();
}

// -------------------------------------------------------------------------------------------------------- the calls

void hold_watcher::complete(asio::any_io_executor const& io, error_code why, bool) {
  post_completion(io, std::exchange(runs_on, {}), lost_handler{std::move(handler)}, why);
}

void extension_call::complete(asio::any_io_executor const& io, error_code why, bool is_held) {
  post_completion(io, std::exchange(runs_on, {}), release_handler{std::move(handler)}, why, is_held);
}

void detach_call::complete(asio::any_io_executor const& io, error_code why, bool) {
  post_completion(io, std::exchange(runs_on, {}), detach_handler{std::move(handler)}, why, std::move(text));
}

}  // namespace conch::detail
