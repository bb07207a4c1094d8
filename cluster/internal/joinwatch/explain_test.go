package joinwatch

import "testing"

func TestExplain(t *testing.T) {
	three := []string{"n1", "n2", "n3"}
	const refused = noAnswer + ": connection refused"
	forming := Standing{Self: "n4", Seen: []string{"n4"},
		Forming: "one forms when 3 peers see each other; peers seen: [n4]"}
	for _, tt := range []struct {
		name string
		f    findings
		want string
	}{
		{"alone at the join addresses", findings{Standing: forming, asked: true,
			addrs: map[string]string{"10.0.0.2:7403": refused, "10.0.0.1:7403": "encrypts with another gossip key"}},
			"one forms when 3 peers see each other; peers seen: [n4]; 10.0.0.1:7403: encrypts with another gossip key; " +
				"10.0.0.2:7403: does not answer: connection refused"},
		{"refused by a peer in gossip", findings{Standing: forming, asked: true,
			peers: map[string]string{"n3": "refuses the certificate of this peer", "n2": refused}},
			"one forms when 3 peers see each other; peers seen: [n4]; n2 is in gossip but does not answer: " +
				"connection refused; n3 refuses the certificate of this peer"},
		{"two of three are down", findings{Standing: Standing{Self: "n1", Voters: three}, asked: true,
			peers: map[string]string{"n2": refused, "n3": refused}, addrs: map[string]string{"10.0.0.2:7403": refused}},
			"n2 and n3 do not answer, 2 of 3 voters are needed: start one of them"},
		{"both of two are needed", findings{Standing: Standing{Self: "n1", Voters: three[:2]}, asked: true,
			peers: map[string]string{"n2": refused}}, "n2 does not answer, 2 of 2 voters are needed: start it"},
		{"four of five are down", findings{Standing: Standing{Self: "n1", Voters: []string{"n1", "n2", "n3", "n4", "n5"}},
			asked: true, peers: map[string]string{"n2": refused, "n3": refused, "n4": refused, "n5": refused}},
			"n2, n3, n4 and n5 do not answer, 3 of 5 voters are needed: start 2 of them"},
		{"not a voter, all voters are down", findings{Standing: Standing{Self: "n4", Voters: three[:1]}, asked: true,
			peers: map[string]string{"n1": refused}}, "n1 does not answer, 1 of 1 voters are needed: start it"},
		{"the keys of a restarted peer differ", findings{Standing: Standing{Self: "n1", Voters: three}, asked: true,
			peers: map[string]string{"n2": refused, "n3": "has a certificate of another CA"},
			addrs: map[string]string{"10.0.0.2:7403": "encrypts with another gossip key"}},
			"n2 and n3 do not answer, 2 of 3 voters are needed: start one of them; " +
				"10.0.0.2:7403: encrypts with another gossip key; n3 has a certificate of another CA"},
		{"gossip alone", findings{Standing: Standing{Self: "n1", Voters: three, Seen: []string{"n1"}}},
			"n2 and n3 do not answer, 2 of 3 voters are needed: start one of them"},
		{"an election", findings{Standing: Standing{Self: "n1", Voters: three, For: 407e6}, asked: true},
			"none for 407ms: an election is in progress, 3 of 3 voters answer"},
		{"an old directory, one peer down", findings{Standing: Standing{Self: "n1", Voters: three, Unfit: "it is a copy"},
			asked: true, peers: map[string]string{"n2": refused}},
			"this peer does not vote: it is a copy; if no peer votes, recover from one: holdfast operator recover"},
		{"an old directory, both others down", findings{Standing: Standing{Self: "n1", Voters: three, Unfit: "it is a copy"},
			asked: true, peers: map[string]string{"n2": refused, "n3": refused}},
			"n2 and n3 do not answer, 2 of 3 voters are needed: start one of them"},
		{"removed from the cluster", findings{Standing: Standing{Self: "n1", Voters: three, For: 4e9}, asked: true,
			leader: "n3"}, "n3 leads, but does not replicate to this peer: it has just been elected, cannot reach the " +
			"Raft port of this peer, or has removed it from the cluster (see holdfast operator raft list-peers)"},
		{"a start", findings{Standing: Standing{Self: "n1", Voters: three}, asked: true,
			peers: map[string]string{"n3": refused}},
			"none since this peer started: an election is in progress, 2 of 3 voters answer"},
	} {
		if got := explain(tt.f); got != tt.want {
			t.Errorf("%s:\n got %q\nwant %q", tt.name, got, tt.want)
		}
	}
}
