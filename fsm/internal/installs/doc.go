// Package installs has the commands about installs: the sessions that an executor opens, the
// reports of installers and nodes, and the runs that only reports advance. It must not advance a
// run that the executor drives.
package installs
