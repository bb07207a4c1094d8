package filter_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-metal/holdfast/internal/filter"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// TestEqualsMatchesItsValueOnly checks that a filter of Equals matches a text, as a field and as a
// label with any key, and no other text.
func TestEqualsMatchesItsValueOnly(t *testing.T) {
	odd := []rune("*\\\"' aA\n\u00a0\u200b\u201c()=.,ï")
	texts := rapid.OneOf(rapid.String(), rapid.StringOfN(rapid.RuneFrom(odd), 0, 6, -1))
	rapid.Check(t, func(t *rapid.T) {
		value, other, key := texts.Draw(t, "value"), texts.Draw(t, "other"), texts.Draw(t, "key")
		switch rapid.IntRange(0, 3).Draw(t, "how") {
		case 0:
			other = strings.ReplaceAll(value, "*", other)
		case 1:
			other = value
		}
		for _, text := range []string{filter.Equals("spec.rack", value), filter.Equals("labels."+filter.Quote(key), value)} {
			f, err := filter.Compile(machines(), text)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			m := &holdfastv1.Machine{Labels: map[string]string{key: other}, Spec: &holdfastv1.MachineSpec{Rack: other}}
			if got, want := f.Match(m), value == other; got != want {
				t.Errorf("%s: got match %t of %q, want %t", text, got, other, want)
			}
		}
	})
}

// TestLookalikes checks that a bare word with a character of which a person sees nothing, or a
// quote, is refused with its position.
func TestLookalikes(t *testing.T) {
	for text, want := range map[string]string{
		"machine_id = \u201cm-1\u201d": `at character 14: \u201c is not a quote of this language: write " or '`,
		"machine_id = m-1\u2019":       `at character 17: \u2019 is not a quote`,
		"machine_id\u00a0= m-1":        `at character 11: '\u00a0' cannot be seen: remove it, or quote`,
		"machine_id = m\u200b-1":       `at character 15: '\u200b' cannot be seen`,
		"\ufeffmachine_id = m-1":       `at character 1: '\ufeff' cannot be seen`,
	} {
		want = strings.NewReplacer(`\u201c is`, "\u201c is", `\u2019 is`, "\u2019 is").Replace(want)
		_, err := filter.Compile(machines(), text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q in it", text, err, want)
		}
	}
	if _, err := filter.Compile(machines(), "rack = Größe-1"); err != nil {
		t.Errorf("letters of other languages: %v", err)
	}
}
