// Package sessions has the install sessions as stored: their stages, their tokens and the effects
// of their end on the machine. It must not know the run that a session belongs to, nor the
// commands that open and advance a session.
package sessions
