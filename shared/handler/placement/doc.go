// Package placement is the function that decides: it reads the stream of the state, asks package
// decide, and commits the answer under the cluster's placement version.
package placement
