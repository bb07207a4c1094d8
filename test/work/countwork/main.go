// Command countwork applies the largest commands to a filled state and prints, for each, the blocks
// of code that were executed, the number of elements and its name. It must be built with coverage
// counters: see the test in the parent directory.
package main

import (
	"fmt"
	"log"

	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
)

func main() {
	f := fsmtest.NewFilled()
	for _, c := range f.Commands {
		before, err := executed()
		if err != nil {
			log.Fatal(err)
		}
		f.Try(c)
		after, err := executed()
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(after-before, c.Elems, c.Name)
	}
}
