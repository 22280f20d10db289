# For a system that has Boost and OpenSSL itself: nothing is fetched. Its versions:
#   conan create packaging/conan --profile:all packaging/conan/system.profile
include(default)

[settings]
compiler.cppstd=20

[platform_requires]
boost/1.81.0
openssl/3.0.0
