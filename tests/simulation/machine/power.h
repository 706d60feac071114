/* What the parts of the disk share. */
#pragma once
#include <stdint.h>

enum { PATH = 1024 };

#pragma GCC visibility push(hidden)
int is_tracked(int fd);
int is_of_log(int fd);
int is_inherited(int fd);
int is_certain_at_once(int fd);
const char *folder_at(int fd);
void opened(int fd, const char *name, int flags, int was_there);
void copied_fd(int from, int to);
void closed(int fd);
long write_tracked(int fd, const unsigned char *bytes, uint64_t count, int64_t at);
long resize_tracked(int fd, uint64_t size);
uint64_t changes_made(void);
void synced(int fd, uint64_t up_to, int has_failed);
long made(const char *name, long result);
long removed(const char *name, int is_folder);
long renamed(const char *from, const char *to);
#pragma GCC visibility pop
