// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/scheme.hpp"

#include <memory>
#include <string_view>
#include <vector>

namespace conch::registry {

/// Those of this library, and then those of the components that the program has.
std::vector<servers::scheme const*> all_schemes();

/// Null: there is none of that name.
servers::scheme const* find(std::string_view name);

/// The scheme of a URL that is not ambiguous. Throws errc::invalid_url, with the names of all; errc::not_supported
/// where a component is missing.
servers::scheme const& scheme_of(std::string_view url);

/// Several servers, of which a majority decides.
std::unique_ptr<servers::target> make_several(std::vector<std::unique_ptr<servers::target>> all);

}  // namespace conch::registry
