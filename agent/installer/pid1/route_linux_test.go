package pid1

import (
	"context"
	"net"
	"net/http/httptest"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// inNamespace runs a test in a network of its own, on a thread that ends with it.
func inNamespace(t *testing.T, test func(t *testing.T, link netlink.Link)) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to create a network namespace")
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread ends with this goroutine
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			done <- err
			return
		}
		pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "holdfast0"}, PeerName: "holdfast1"}
		err := netlink.LinkAdd(pair)
		for _, name := range []string{"holdfast0", "holdfast1"} {
			if err == nil {
				var end netlink.Link
				if end, err = netlink.LinkByName(name); err == nil {
					err = netlink.LinkSetUp(end)
				}
			}
		}
		if err == nil {
			link, _ := netlink.LinkByName("holdfast0")
			test(t, link)
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Skip("this machine cannot create a network of its own: ", err)
	}
}

func TestConfigure(t *testing.T) {
	prefix, addr := netip.MustParsePrefix, netip.MustParseAddr
	tests := []struct {
		name string
		addr Addr
		want []string // routes that the kernel has afterwards, beside that of the address's network
	}{
		{"a router in the network", Addr{Prefix: prefix("10.9.0.7/24"), Gateway: addr("10.9.0.1")},
			[]string{"0.0.0.0/0 via 10.9.0.1"}},
		{"an address without a network", Addr{Prefix: prefix("172.30.0.7/32"), Gateway: addr("172.30.0.1")},
			[]string{"0.0.0.0/0 via 172.30.0.1", "172.30.0.1/32"}},
		{"a router in the other half of the network", Addr{Prefix: prefix("10.9.0.7/25"), Gateway: addr("10.9.0.129")},
			[]string{"0.0.0.0/0 via 10.9.0.129", "10.9.0.129/32"}},
		{"no router", Addr{Prefix: prefix("10.9.0.7/24")}, nil},
		{"a router that is no address", Addr{Prefix: prefix("10.9.0.7/24"), Gateway: addr("0.0.0.0")}, nil},
		{"static routes", Addr{Prefix: prefix("10.9.0.7/24"), Gateway: addr("10.9.0.1"), Routes: []Route{
			{To: prefix("192.168.7.0/24"), Via: addr("10.9.0.2")},
			{To: prefix("0.0.0.0/0"), Via: addr("172.30.0.1")},
			{To: prefix("172.30.0.1/32"), Via: addr("0.0.0.0")},
		}}, []string{"0.0.0.0/0 via 172.30.0.1", "172.30.0.1/32", "192.168.7.0/24 via 10.9.0.2"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inNamespace(t, func(t *testing.T, link netlink.Link) {
				if err := configure(link, tt.addr); err != nil {
					t.Error(err)
					return
				}
				if got := routesOf(t, link, tt.addr.Prefix); !slices.Equal(got, tt.want) {
					t.Errorf("got routes %q, want %q", got, tt.want)
				}
				if err := forget(link, tt.addr); err != nil {
					t.Error(err)
				}
				if got := routesOf(t, link, tt.addr.Prefix); len(got) != 0 {
					t.Errorf("after forget: got routes %q", got)
				}
			})
		})
	}
}

// routesOf returns the routes of an interface in text, without that of its network.
func routesOf(t *testing.T, link netlink.Link, p netip.Prefix) []string {
	routes, err := netlink.RouteList(link, netlink.FAMILY_V4)
	if err != nil {
		t.Error(err)
	}
	var all []string
	for _, r := range routes {
		to := "0.0.0.0/0"
		if r.Dst != nil {
			to = r.Dst.String()
		}
		if to == p.Masked().String() {
			continue
		}
		if r.Gw != nil {
			to += " via " + r.Gw.String()
		}
		all = append(all, to)
	}
	slices.Sort(all)
	return all
}

func TestAddressOfLease(t *testing.T) {
	ack, err := dhcpv4.New(dhcpv4.WithYourIP(net.IPv4(172, 30, 0, 7)), dhcpv4.WithNetmask(net.CIDRMask(32, 32)),
		dhcpv4.WithRouter(net.IPv4(172, 30, 0, 1)),
		dhcpv4.WithOption(dhcpv4.OptClasslessStaticRoute(
			&dhcpv4.Route{Dest: &net.IPNet{IP: net.IPv4(10, 1, 0, 0), Mask: net.CIDRMask(16, 32)},
				Router: net.IPv4(172, 30, 0, 9)})))
	if err != nil {
		t.Fatal(err)
	}
	got, err := (&dhcp{lease: &nclient4.Lease{ACK: ack}}).addr()
	if err != nil {
		t.Fatal(err)
	}
	want := Addr{Prefix: netip.MustParsePrefix("172.30.0.7/32"), Gateway: netip.MustParseAddr("172.30.0.1"),
		Routes: []Route{{To: netip.MustParsePrefix("10.1.0.0/16"), Via: netip.MustParseAddr("172.30.0.9")}}}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
		cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReach(t *testing.T) {
	srv := httptest.NewServer(nil)
	base := srv.URL
	if err := reach(t.Context(), base); err != nil {
		t.Errorf("a peer that answers: got %v", err)
	}
	srv.Close()
	if err := reach(t.Context(), base); err != nil {
		t.Errorf("a host that refuses: got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := reach(ctx, base); err == nil {
		t.Error("no answer: got nil, want an error")
	}
}

// TestAddrOf checks which settings are read of the acknowledgements of servers.
func TestAddrOf(t *testing.T) {
	prefix, addr := netip.MustParsePrefix, netip.MustParseAddr
	routes := dhcpv4.Routes{{Dest: &net.IPNet{IP: net.IPv4(10, 9, 0, 0), Mask: net.CIDRMask(16, 32)},
		Router: net.IPv4(10, 0, 0, 2)}}
	mask := dhcpv4.WithNetmask(net.CIDRMask(24, 32))
	tests := []struct {
		name   string
		ip     net.IP
		has    []dhcpv4.Modifier
		want   Addr
		refuse bool
	}{
		{"a router", net.IPv4(10, 0, 0, 7), []dhcpv4.Modifier{mask, dhcpv4.WithRouter(net.IPv4(10, 0, 0, 1))},
			Addr{Prefix: prefix("10.0.0.7/24"), Gateway: addr("10.0.0.1")}, false},
		{"no netmask", net.IPv4(192, 168, 3, 7), nil, Addr{Prefix: prefix("192.168.3.7/24")}, false},
		{"an empty router first", net.IPv4(10, 0, 0, 7),
			[]dhcpv4.Modifier{mask, dhcpv4.WithRouter(net.IPv4zero, net.IPv4(10, 0, 0, 1))},
			Addr{Prefix: prefix("10.0.0.7/24"), Gateway: addr("10.0.0.1")}, false},
		{"static routes", net.IPv4(10, 0, 0, 7), []dhcpv4.Modifier{mask,
			dhcpv4.WithOption(dhcpv4.OptClasslessStaticRoute(routes...))},
			Addr{Prefix: prefix("10.0.0.7/24"), Routes: []Route{{prefix("10.9.0.0/16"), addr("10.0.0.2")}}}, false},
		{"static routes under Microsoft's code", net.IPv4(10, 0, 0, 7),
			[]dhcpv4.Modifier{mask, dhcpv4.WithOption(dhcpv4.OptGeneric(microsoftRoutes, routes.ToBytes()))},
			Addr{Prefix: prefix("10.0.0.7/24"), Routes: []Route{{prefix("10.9.0.0/16"), addr("10.0.0.2")}}}, false},
		{"static routes that are cut off", net.IPv4(10, 0, 0, 7),
			[]dhcpv4.Modifier{mask, dhcpv4.WithOption(dhcpv4.OptGeneric(microsoftRoutes, []byte{16, 10}))},
			Addr{Prefix: prefix("10.0.0.7/24")}, false},
		{"no address", net.IPv4zero, []dhcpv4.Modifier{mask}, Addr{}, true},
		{"a netmask with a hole", net.IPv4(10, 0, 0, 7),
			[]dhcpv4.Modifier{dhcpv4.WithNetmask(net.IPv4Mask(255, 0, 255, 0))},
			Addr{}, true},
	}
	for _, tt := range tests {
		ack, err := dhcpv4.New(append(tt.has, dhcpv4.WithYourIP(tt.ip))...)
		if err != nil {
			t.Fatal(err)
		}
		got, err := addrOf(ack)
		if (err != nil) != tt.refuse {
			t.Errorf("%s: got %v, want an error: %v", tt.name, err, tt.refuse)
		}
		if diff := cmp.Diff(tt.want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
			cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
