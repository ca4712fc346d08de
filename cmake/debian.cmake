# Run by cpack when everything lies in its staging folder: what Debian wants beside it.
set(share ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/share)
set(doc ${share}/doc/malha)
file(WRITE ${doc}/copyright "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: malha

Files: *
Copyright: 2026 the Malha developers
License: Apache-2.0
 On Debian systems the whole text is in /usr/share/common-licenses/Apache-2.0.
")
string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(WRITE ${doc}/changelog "malha (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * NEWS.gz says what is new.

 -- ${CPACK_PACKAGE_CONTACT}  ${now}
")
configure_file(${CMAKE_CURRENT_LIST_DIR}/../CHANGELOG.md ${doc}/NEWS COPYONLY)
file(GLOB pages ${share}/man/man*/*)
foreach(page IN LISTS pages ITEMS ${doc}/changelog ${doc}/NEWS)
  execute_process(COMMAND gzip -9nf ${page} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
