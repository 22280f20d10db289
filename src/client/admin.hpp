// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/asio_compat.hpp"
#include "client/core.hpp"
#include "cohort/admin_request.hpp"

#include <list>
#include <memory>
#include <optional>

namespace conch::detail {

/// An admin_request of the engine, and who is to be told.
class client_request : public engine::admin_request {
 public:
  client_request(core_ptr c, kind w, std::string of) : core{std::move(c)} {
    what = w;
    name = std::move(of);
  }
  virtual ~client_request() = default;

  /// Posts the completion.
  virtual void complete(asio::any_io_executor const& io) = 0;
  /// The context is gone: nobody is told.
  virtual void drop() = 0;

  core_ptr const core;
  node_ref of_hold;  // downgrade: this one
  engine::admin_result result;
  error_code why;
  std::optional<std::list<std::shared_ptr<client_request>>::iterator> at_core;  // among those that are not answered yet; with the engine locked
};

}  // namespace conch::detail
