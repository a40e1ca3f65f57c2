// Package nodegroupupgrade replaces the nodes of node groups. Package nodegroup decides the next actions; this package reads
// what it decides on, writes what it remembers, and carries the actions out.
package nodegroupupgrade
