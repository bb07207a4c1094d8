package filter

import "testing"

func TestMeant(t *testing.T) {
	names := []string{"phase", "pool", "rack", "machine_id"}
	for written, want := range map[string]string{
		"phse": "phase", "poool": "pool", "rack": "rack", "rak": "rack", "machineid": "machine_id", "colour": "", "x": "", "pl": "", "": "",
	} {
		if want != "" {
			want = ": did you mean " + want + "?"
		}
		if got := meant(written, names); got != want {
			t.Errorf("%q: got %q, want %q", written, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "ab", 2}, {"ab", "", 2}, {"phase", "phase", 0}, {"phse", "phase", 1}, {"ab", "ba", 2}, {"kitten", "sitting", 3}} {
		if got := distance(tt.a, tt.b); got != tt.want {
			t.Errorf("%q to %q: got %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
