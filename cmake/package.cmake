# A Debian package: cpack, run by ./dev package. Debian wants compressed pages and a copyright file of its own.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME malha)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(MALHA_MAINTAINER "The Malha developers <malha@example.org>" CACHE STRING "Maintainer of the Debian package")
set(CPACK_PACKAGE_CONTACT ${MALHA_MAINTAINER})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "plan the training of language models on GPU machines")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "Malha answers whether the training of a language model fits a machine, from
one 8-GPU server to a cluster of thousands, how to split it, how fast it
will be, how long it takes and what it costs in money and energy.

This package has the command, its catalogue of models and machines, and the
library libmalha with its header.")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_BINARY_DIR}/debian/triggers ${CMAKE_BINARY_DIR}/debian/shlibs)
file(WRITE ${CMAKE_BINARY_DIR}/debian/triggers "activate-noawait ldconfig\n")
file(WRITE ${CMAKE_BINARY_DIR}/debian/shlibs "libmalha 0 malha (>= ${PROJECT_VERSION})\n")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/cmake/debian.cmake)
include(CPack)
