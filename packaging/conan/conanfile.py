# Conan 2. See ../README.md.
import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load

root = os.path.join("..", "..")


class ConchConan(ConanFile):
    name = "conch"
    description = "A distributed lock client for C++20 on Boost.Asio"
    license = "BSL-1.0"
    topics = ("lock", "mutex", "distributed", "redis", "asio")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "fPIC": [True, False], "tls": [True, False]}
    default_options = {"shared": False, "fPIC": True, "tls": True}

    def set_version(self):
        header = load(self, os.path.join(self.recipe_folder, root, "include", "conch", "version.hpp"))
        self.version = re.search(r'version_string = "([0-9.]+)"', header).group(1)

    def export_sources(self):
        source = os.path.join(self.recipe_folder, root)
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "lua/*", "src/*"):
            copy(self, pattern, source, self.export_sources_folder, excludes=("build/*",))

    def configure(self):
        if self.options.shared:
            self.options.rm_safe("fPIC")

    def layout(self):
        cmake_layout(self)

    def requirements(self):
        self.requires("boost/[>=1.81.0]", transitive_headers=True)
        if self.options.tls:
            self.requires("openssl/[>=3]", transitive_headers=True)

    def validate(self):
        check_min_cppstd(self, 20)

    def generate(self):
        toolchain = CMakeToolchain(self)
        for name in ("BUILD_TESTS", "BUILD_BENCH", "BUILD_EXAMPLES", "BUILD_CLI", "POSTGRESQL"):
            toolchain.cache_variables["CONCH_" + name] = False
        toolchain.cache_variables["CONCH_TLS"] = bool(self.options.tls)
        toolchain.cache_variables["CONCH_WERROR"] = False
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        CMake(self).install()

    def package_info(self):
        # conch brings its own package file for CMake, with all definitions.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [os.path.join("lib", "cmake", "conch")]
        self.cpp_info.libs = ["conch"]
        self.cpp_info.defines = ["BOOST_ASIO_SEPARATE_COMPILATION", "CONCH_TLS=" + str(int(bool(self.options.tls)))]
        if self.settings.os in ("Linux", "FreeBSD"):
            self.cpp_info.system_libs = ["pthread"]
        self.cpp_info.requires = ["boost::headers"] + (["openssl::openssl"] if self.options.tls else [])
