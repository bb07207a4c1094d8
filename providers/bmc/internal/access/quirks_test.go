package access

import (
	"testing"
	"time"
)

func TestQuirks(t *testing.T) {
	for _, r := range quirkTable() {
		if len(r.source) < 20 {
			t.Errorf("quirk: got source %q", r.source)
		}
	}
	if got := QuirksOf("Super Micro Computer Inc.", "X12"); got.IPMIGap != 5*time.Second {
		t.Errorf("Super Micro: got gap %v, want 5s", got.IPMIGap)
	}
	if got := QuirksOf("Supermicro", ""); got.IPMIGap != 5*time.Second {
		t.Errorf("Supermicro: got gap %v, want 5s", got.IPMIGap)
	}
	if got := QuirksOf("Contoso", "9"); got != (Quirks{BootFlagsExpire: true}) {
		t.Errorf("unknown maker: got %+v", got)
	}
}
