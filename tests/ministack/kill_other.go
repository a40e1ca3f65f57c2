//go:build !linux

package ministack

// KillFunctions finds the functions' processes only on Linux.
func (s *Server) KillFunctions() (killed int) { return 0 }
