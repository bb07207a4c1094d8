package pxe

import (
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/insomniacslk/dhcp/dhcpv4"
)

const (
	mostTries = 4096             // machines that are remembered
	tryTime   = 10 * time.Minute // for which a try counts
)

// tries counts how often firmware has discovered servers without asking on port 4011 after that.
// Some firmware never asks there, and some takes no file from an offer: it gets the one answer and
// the other in turn.
type tries struct{ of *lru.Cache[string, try] }

type try struct {
	last  dhcpv4.TransactionID
	at    time.Time
	count int
}

func newTries() tries {
	c, _ := lru.New[string, try](mostTries) // fails only for a size below one
	return tries{c}
}

// add counts a discovery and returns the number. A repeated packet does not count.
func (t tries) add(mac string, id dhcpv4.TransactionID, now time.Time) int {
	had, ok := t.of.Get(mac)
	switch {
	case ok && had.last == id:
		return had.count
	case now.Sub(had.at) > tryTime:
		had.count = 0
	}
	t.of.Add(mac, try{id, now, had.count + 1})
	return had.count + 1
}

// forget ends the count of a machine, whose firmware has gone on.
func (t tries) forget(mac string) { t.of.Remove(mac) }
