package display

import "testing"

func TestRefer(t *testing.T) {
	const known = "boot_device of m-3: BMC answered 500"
	for _, tt := range []struct{ text, known, want string }{
		{"run failed: " + known, known, "run failed: see last error"},
		{"NeedsIntervention=true (StepFailed: join: " + known + ")", known,
			"NeedsIntervention=true (StepFailed: join: see last error)"},
		{known, "", known},
		{"another", known, "another"},
		{"", known, ""},
	} {
		if got := refer(tt.text, tt.known); got != tt.want {
			t.Errorf("%q beside %q: got %q, want %q", tt.text, tt.known, got, tt.want)
		}
	}
}

func TestMarked(t *testing.T) {
	for in, want := range map[string]string{
		"<td>fra\u202e1\u2066</td>": "<td>fra\uFFFD1\uFFFD</td>",
		"<td>\u05d0é…</td>":         "<td>\u05d0é…</td>",
	} {
		if got := string(Marked([]byte(in))); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
