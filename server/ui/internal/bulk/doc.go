// Package bulk does one action to many machines: it reads the selected machines, describes the
// effect of the action on each, and does it to each after the confirmation.
//
// It owns the list of these actions and their limits. It must not decide about access: the calls
// are made as the user, and each is allowed or refused by its service.
package bulk
