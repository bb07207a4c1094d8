// Package fleet has the rules of machines: their inventory, phase, conditions, node record, agent
// and hardware. It must not know how a run or an installation proceeds.
package fleet
