// Package shallow copies messages of the state one level deep. Stored messages are shared and
// never change, so a command that changes one copies it, and shares the parts that it leaves
// alone. It must not know the rules of a resource.
package shallow
