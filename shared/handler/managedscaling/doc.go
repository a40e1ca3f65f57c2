// Package managedscaling keeps the Auto Scaling groups of capacity providers at the size that the tasks need. Package scaling
// decides; this package reads what it decides on, writes what it remembers, and acts on the groups.
package managedscaling
