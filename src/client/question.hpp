// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/asio_compat.hpp"
#include "client/core.hpp"
#include "protocol/inquiry.hpp"

#include <list>
#include <memory>
#include <optional>
#include <vector>

namespace conch::detail {

/// An inquiry of the engine, and who is to be told.
class question : public engine::inquiry {
 public:
  question(core_ptr c, kind w, std::string of) : core{std::move(c)} {
    what = w;
    name = std::move(of);
  }
  virtual ~question() = default;

  /// Posts the completion.
  virtual void complete(asio::any_io_executor const& io) = 0;
  /// The context is gone: nobody is told.
  virtual void drop() = 0;

  core_ptr const core;
  node_ref of_hold;  // downgrade: this one
  std::vector<std::int64_t> numbers;
  error_code why;
  std::optional<std::list<std::shared_ptr<question>>::iterator> at_core;  // among those that are not answered yet; with the engine locked
};

}  // namespace conch::detail
