# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# A private apt for one Debian suite, with the mirrors, proxies and permissions of this machine. It does not
# change the package lists of the machine. Sourced after lib.sh.

# apt_uris: prints "URI SUITE" for each source of this machine's apt.
apt_uris() {
	apt-get update --print-uris 2>/dev/null |
		sed -n "s,^'\(.*\)/dists/\([^']*\)/InRelease'.*,\1 \2,p"
}

# apt_archive SUITE: prints the URI of the archive with SUITE. The main archive also has this
# machine's -updates suite, as third parties name their suites like Debian's.
apt_archive() {
	local host
	host=$(this_suite)
	case $1 in
	*-security) apt_uris | awk -v suite="$host" '$2 == suite "-security" && !found++ { print $1 }' ;;
	*) apt_uris | awk -v suite="$host" '
		$2 == suite "-updates" && !main { main = $1 }
		$2 == suite && !first { first = $1 }
		END { if (main || first) print main ? main : first }' ;;
	esac
}

# apt_source SUITE: prints the line of the suite for a sources.list.
apt_source() {
	local uri keyring options
	uri=$(apt_archive "$1")
	[[ -n $uri ]] || return 1
	options="arch=$(dpkg --print-architecture)"
	for keyring in /usr/share/keyrings/debian-archive-keyring.{pgp,gpg}; do
		[[ -e $keyring ]] && options+=" signed-by=$keyring" && break
	done
	# The Release files of testing and unstable expire within a week, and mirrors may lag behind.
	[[ $1 == *-security ]] || options+=" check-valid-until=no"
	echo "deb [$options] $uri $1 main"
}

# apt_setup SUITE: makes $CACHE/apt/SUITE, sets APT_DIR to it, and downloads the package lists.
apt_setup() {
	local suite=$1 name
	APT_DIR=$CACHE/apt/$suite
	mkdir -p "$APT_DIR"/{lists/partial,archives/partial,parts}
	: >"$APT_DIR/status"

	# The machine's apt settings, without directories and hooks.
	{
		apt-config dump | grep -Ev '^(Dir|DPkg|APT::Update|APT::Sandbox)\b'
		cat <<-CONFIG
			Dir::State "$APT_DIR";
			Dir::State::lists "$APT_DIR/lists";
			Dir::State::status "$APT_DIR/status";
			Dir::Cache "$APT_DIR";
			Dir::Cache::pkgcache "";
			Dir::Cache::srcpkgcache "";
			Dir::Etc::sourcelist "$APT_DIR/sources.list";
			Dir::Etc::sourceparts "$APT_DIR/parts";
			Dir::Etc::preferences "/dev/null";
			Dir::Etc::preferencesparts "$APT_DIR/parts";
			Dir::Etc::parts "$APT_DIR/parts";
			Dir::Etc::main "/dev/null";
			APT::Sandbox::User "";
			APT::Install-Recommends "false";
			Acquire::Languages "none";
			Acquire::Retries "3";
		CONFIG
	} >"$APT_DIR/apt.conf"

	name=${suite%-security}
	if [[ $suite == *-* ]]; then
		apt_source "$suite" >"$APT_DIR/sources.list" ||
			die "this machine's apt has no archive for $suite"
		apt_update
	else
		# Kernels of stable suites are mostly security updates. Not each suite has a security suite, and testing's may
		# be out of date for weeks.
		{
			apt_source "$name" && apt_source "$name-security"
		} >"$APT_DIR/sources.list" || true
		apt_update 2>"$APT_DIR/update.log" || {
			cat "$APT_DIR/update.log" >&2
			grep -qE "[ /]$name-security(/InRelease is expired| Release' does not have a Release file)" \
				"$APT_DIR/update.log" ||
				die "$suite: no package lists of its security updates"
			apt_source "$name" >"$APT_DIR/sources.list" ||
				die "this machine's apt has no archive for $suite"
			apt_update
		}
	fi || die "$suite: no package lists; is there such a suite, and a network?"
}

# Fails on any error, even a transient one, instead of using old lists.
apt_update() {
	LC_ALL=C apt_private apt-get update --error-on=any
}

# apt_private COMMAND...: runs an apt command for the suite of the last apt_setup.
apt_private() {
	if [[ $1 == apt-get ]]; then
		APT_CONFIG=$APT_DIR/apt.conf "$1" -q -q "${@:2}" >&2
	else
		APT_CONFIG=$APT_DIR/apt.conf "$@"
	fi
}

# apt_names PACKAGE...: prints the packages and their transitive dependencies, as far as known.
apt_names() {
	apt_private apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts \
		--no-breaks --no-replaces --no-enhances --no-pre-depends "$@" |
		sed -n 's/^\([a-z0-9][^ ]*\)$/\1/p' | sort -u
}
