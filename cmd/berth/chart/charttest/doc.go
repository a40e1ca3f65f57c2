// Package charttest checks the reports that commands write.
package charttest
