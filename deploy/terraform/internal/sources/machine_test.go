package sources

import "testing"

func TestFilter(t *testing.T) {
	for _, tt := range []struct {
		expression string
		labels     map[string]string
		want       string
	}{
		{"", nil, ""},
		{" ", map[string]string{"env": "prod"}, `labels."env" = "prod"`},
		{"rack = r7 OR rack = r8", map[string]string{"b": `"`, "a/x": "1"},
			`(rack = r7 OR rack = r8) AND labels."a/x" = "1" AND labels."b" = "\""`},
		{"", map[string]string{"a": `*ü\n`}, `labels."a" = "\*ü\\n"`},
	} {
		if got := withLabels(tt.expression, tt.labels); got != tt.want {
			t.Errorf("withLabels(%q, %v): got %s, want %s", tt.expression, tt.labels, got, tt.want)
		}
	}
}
