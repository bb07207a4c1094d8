package bmclab

import (
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// Tap is a proxy of a BMC that speaks IPMI. It records the times of packets. ipmitool uses
// a new port for each command, so the packets of one port belong to one command and its
// session.
type Tap struct {
	Endpoint string // bmc_endpoint of a machine

	mu    sync.Mutex
	calls map[string]*call // by the caller's address
	delay time.Duration
}

type call struct {
	first, last time.Time // packets in both directions
	bmc         *net.UDPConn
}

// Tap opens a tap. It ends with the test.
func (l *Lab) Tap(b *BMC) *Tap {
	l.t.Helper()
	addr, err := net.ResolveUDPAddr("udp", l.ports.Address("127.0.0.1"))
	if err != nil {
		l.t.Fatal(err)
	}
	conn, err := net.ListenUDP("udp", addr)
	if err != nil {
		l.t.Fatal(err)
	}
	t := &Tap{Endpoint: "ipmi://" + addr.String(), calls: map[string]*call{}}
	var serving sync.WaitGroup
	serving.Go(func() { t.serve(l, conn, strings.TrimPrefix(b.Endpoint, "ipmi://"), &serving) })
	l.t.Cleanup(func() {
		_ = conn.Close()
		t.mu.Lock()
		for _, c := range t.calls {
			_ = c.bmc.Close()
		}
		t.mu.Unlock()
		serving.Wait()
	})
	return t
}

// Delay delays every response by d.
func (t *Tap) Delay(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.delay = d
}

func (t *Tap) serve(l *Lab, conn *net.UDPConn, bmc string, serving *sync.WaitGroup) {
	b := make([]byte, 2048)
	for {
		n, from, err := conn.ReadFromUDP(b)
		if err != nil {
			return
		}
		t.mu.Lock()
		c := t.calls[from.String()]
		if c == nil {
			to, err := net.Dial("udp", bmc)
			if err != nil {
				l.t.Error(err)
				t.mu.Unlock()
				return
			}
			c = &call{first: time.Now(), bmc: to.(*net.UDPConn)}
			t.calls[from.String()] = c
			serving.Go(func() { t.answer(conn, c, from) })
		}
		c.last = time.Now()
		t.mu.Unlock()
		_, _ = c.bmc.Write(b[:n]) // lost packets are retransmitted
	}
}

func (t *Tap) answer(conn *net.UDPConn, c *call, to *net.UDPAddr) {
	b := make([]byte, 2048)
	for {
		n, err := c.bmc.Read(b)
		if err != nil {
			return
		}
		t.mu.Lock()
		d := t.delay
		t.mu.Unlock()
		time.Sleep(d) // sleep: the delay of the BMC
		t.mu.Lock()
		c.last = time.Now()
		t.mu.Unlock()
		_, _ = conn.WriteToUDP(b[:n], to)
	}
}

// Seen returns the number of commands, the maximum at the same time, and the shortest time
// between the end of one and the beginning of the next, which is negative if they overlap.
func (t *Tap) Seen() (commands, most int, gap time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []*call
	for _, c := range t.calls {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *call) int { return a.first.Compare(b.first) })
	gap = time.Hour
	for i, c := range all {
		at := 0
		for j, o := range all[:i+1] {
			if !o.last.Before(c.first) {
				at++
			}
			if j < i {
				gap = min(gap, c.first.Sub(o.last))
			}
		}
		most = max(most, at)
	}
	return len(all), most, gap
}
