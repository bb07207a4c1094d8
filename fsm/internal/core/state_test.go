package core

import (
	"reflect"
	"strings"
	"testing"
)

// Each field of state that is a table is declared, in a new state and in a frozen one.
func TestTablesAreDeclared(t *testing.T) {
	s := NewState()
	for name, v := range map[string]reflect.Value{
		"new": reflect.ValueOf(s).Elem(), "frozen": reflect.ValueOf(s.Freeze(&State{})).Elem(),
	} {
		tables := 0
		for i := range v.NumField() {
			f := v.Type().Field(i)
			kind := f.Type.String()
			if !strings.HasPrefix(kind, "*table.Table[") && !strings.HasPrefix(kind, "*table.Sequence[") {
				continue
			}
			tables++
			if v.Field(i).IsNil() {
				t.Errorf("%s state: table %s is not declared in tableList", name, f.Name)
			}
		}
		if got := len(s.Tables()); got != tables {
			t.Errorf("%s state: %d tables are declared, want %d", name, got, tables)
		}
	}
}
