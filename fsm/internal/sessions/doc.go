// Package sessions has the install sessions as stored: their stages, their tokens and their end.
// It must not know the attempt of a session, nor the commands that open and advance one.
package sessions
