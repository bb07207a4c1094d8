# The part of release-check.sh on the host, as root: bash -s install|upgrade|remove, in that order.
set -euo pipefail
die() {
	local what=$1
	shift
	echo "release-check: $what: $*" >&2
	exit 1
}
same() { [ "$2" = "$3" ] || die "$1" "got \"$2\", want \"$3\""; }
unit() { systemctl show -P "$2" "$1"; }
there() { [ -e "$1" ] || die "$1" "is not there"; }
gone() { [ ! -e "$1" ] || die "$1" "is still there"; }
config() { (cd /etc/holdfast && find . -type f -exec sha256sum {} + | sort); }

case $1 in
install)
	dpkg -i /root/old/*.deb >/dev/null
	dpkg -i /root/old/*.deb >/dev/null # a second time
	dpkg -V holdfast holdfast-agent
	same "version" "$(holdfast version -o name)" 0.0.1
	for service in holdfast holdfast-agent; do
		same "$service after the install" "$(unit "$service" ActiveState) $(unit "$service" UnitFileState)" "inactive disabled"
		same "systemd-analyze verify $service" "$(systemd-analyze verify "/usr/lib/systemd/system/$service.service" 2>&1)" ""
		systemd-analyze security --no-pager --threshold=25 "$service" >/dev/null || die "$service" "is exposed: systemd-analyze security $service"
	done
	same "the keys' directory" "$(stat -c '%a %U' /etc/holdfast/keys)" "700 root"
	same "the user" "$(getent passwd holdfast | cut -d: -f6,7)" "/var/lib/holdfast:/usr/sbin/nologin"
	bash -c '. /usr/share/bash-completion/completions/holdfast && complete -p holdfast' >/dev/null
	perl -e 'our %nrconf; do "/etc/needrestart/conf.d/holdfast.conf"; die $@ if $@; my ($re) = keys %{$nrconf{override_rc}}; die "no match" unless "holdfast.service" =~ $re && "holdfast-agent.service" !~ $re'

	mkdir /root/pki
	cd /root/pki
	holdfast tls ca create --cluster check >/dev/null
	holdfast tls cert create --peer n1 --host 127.0.0.1 >/dev/null
	holdfast tls cert create --client --name check --role admin >/dev/null
	holdfast gossip keygen --out gossip.key >/dev/null
	holdfast secret keygen --out secrets.keys >/dev/null
	install -m 644 ca.pem /etc/holdfast/ca.pem
	install -m 644 n1.pem /etc/holdfast/peer.pem
	install -m 600 n1-key.pem /etc/holdfast/keys/peer-key.pem
	install -m 600 gossip.key secrets.keys /etc/holdfast/keys/
	sed -e 's/10\.0\.0\.1/127.0.0.1/; s/bootstrap_expect: 3/bootstrap_expect: 1/; /^join:/d' /usr/share/doc/holdfast/config.example.yaml >/etc/holdfast/config.yaml
	systemctl enable --now holdfast 2>/dev/null
	;;
upgrade)
	pid=$(unit holdfast MainPID)
	dpkg -i /root/new/*.deb >/dev/null 2>/root/said
	grep -q 'the peer was not restarted' /root/said || die "the upgrade" "did not say that the peer runs on: $(cat /root/said)"
	sh /var/lib/dpkg/info/holdfast.postinst configure 0.0.1 2>/dev/null
	same "the peer after the upgrade" "$(unit holdfast MainPID) $(unit holdfast NRestarts) $(unit holdfast UnitFileState)" "$pid 0 enabled"
	same "version" "$(holdfast version -o name)" 0.0.2
	export HOLDFAST_CA=/root/pki/ca.pem HOLDFAST_CERT=/root/pki/check.pem HOLDFAST_KEY=/root/pki/check-key.pem
	holdfast version --server | grep -q 'n1 .*0\.0\.1' || die "the peer" "does not say that it is 0.0.1: $(holdfast version --server)"
	systemctl restart holdfast
	for _ in $(seq 60); do # until it leads
		holdfast version --server 2>/dev/null | grep -q 'n1 .*0\.0\.2' && break
		sleep 0.5
	done
	holdfast version --server | grep -q 'n1 .*0\.0\.2' || die "the peer after its restart" "is not 0.0.2: $(holdfast version --server 2>&1)"
	;;
remove)
	before=$(config)
	find /var/lib/holdfast -type f >/root/data
	[ -s /root/data ] || die "the peer" "has no data in /var/lib/holdfast"
	dpkg -r holdfast holdfast-agent >/dev/null
	same "the peer after the removal" "$(unit holdfast ActiveState)" inactive
	gone /usr/bin/holdfast
	gone /etc/systemd/system/multi-user.target.wants/holdfast.service
	same "configuration and keys after the removal" "$(config)" "$before"
	while read -r file; do there "$file"; done </root/data

	dpkg -i /root/new/*.deb >/dev/null
	systemctl enable --now holdfast 2>/dev/null
	same "the peer with the data that stayed" "$(unit holdfast ActiveState)" active
	dpkg -P holdfast holdfast-agent >/dev/null
	for path in /etc/holdfast /var/lib/holdfast /etc/holdfast-agent /var/lib/holdfast-agent /etc/needrestart /usr/share/doc/holdfast; do gone "$path"; done
	same "files of the user after the purge" "$(find / -xdev -user holdfast)" ""
	# Nothing is removed from a host that deploy/ansible set up.
	dpkg -i /root/new/*.deb >/dev/null
	touch /etc/systemd/system/holdfast.service /etc/holdfast/config.yaml
	dpkg -P holdfast holdfast-agent >/dev/null
	there /etc/holdfast/config.yaml
	;;
*) die "$1" "is no step" ;;
esac
echo "release-check: $1: all is well"
