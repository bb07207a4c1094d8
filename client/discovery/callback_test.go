package discovery

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLogCallback(t *testing.T) {
	var out bytes.Buffer
	c := LogCallback(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})))
	target := Target{ServiceName: "tools", ID: "id-1"}
	c.OnRegistration(nil, target)
	c.OnPing(nil, target, 204)
	c.OnDeregistration(nil, target, 200)
	want := `level=INFO msg="service registered" service=tools id=id-1
level=DEBUG msg="service pinged" service=tools id=id-1 status=204
level=INFO msg="service deregistered" service=tools id=id-1 status=200
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}
