package logstore

import "testing"

func TestSelected(t *testing.T) {
	for _, tt := range []struct{ variable, otherwise, want string }{
		{"", WAL, "raft log stores: wal, wal, wal"},
		{"", Mixed, "raft log stores: wal, boltdb, wal"},
		{"boltdb", Mixed, "raft log stores: boltdb, boltdb, boltdb"},
		{"mixed", WAL, "raft log stores: wal, boltdb, wal"},
		{"bolt", WAL, ""},
	} {
		t.Run(tt.variable+"/"+tt.otherwise, func(t *testing.T) {
			t.Setenv(Variable, tt.variable)
			s, err := Selected(tt.otherwise, 1)
			if tt.want == "" {
				if err == nil {
					t.Errorf("selected: got no error, want one")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Text(3); got != tt.want {
				t.Errorf("stores: got %q, want %q", got, tt.want)
			}
		})
	}
}
