#!/usr/bin/env bash
# A browser for the tests of pages, where one may be installed: MERCER_INSTALL_BROWSER=1, root, and apt. Without it those
# tests are skipped with a reason, so that nothing here is an error.
if command -v chromium > /dev/null && command -v chromedriver > /dev/null; then exit 0; fi
if [ "${MERCER_INSTALL_BROWSER:-}" != 1 ] || [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then exit 0; fi
{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium chromium-driver; } \
	> /dev/null 2>&1 || echo "no browser could be installed: tests of pages will be skipped"
