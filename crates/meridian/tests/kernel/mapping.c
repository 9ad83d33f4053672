/* Writes a file through a shared mapping and reads it back through another; safe Rust has no mmap. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LENGTH = 3 * 1024 * 1024 + 17 };

static char *mapped(const char *path, int flags, int protection)
{
    int file = open(path, flags, 0644);
    if (file < 0 || ((flags & O_CREAT) && ftruncate(file, LENGTH) != 0))
        return MAP_FAILED;
    char *map = mmap(NULL, LENGTH, protection, MAP_SHARED, file, 0);
    close(file); /* The mapping keeps the file. */
    return map;
}

int main(int count, char **words)
{
    if (count != 2)
        return 2;
    char *written = mapped(words[1], O_RDWR | O_CREAT | O_EXCL, PROT_READ | PROT_WRITE);
    if (written == MAP_FAILED)
        return perror("map for writing"), 1;
    for (int i = 0; i < LENGTH; i++)
        written[i] = (char)('a' + i % 23);
    if (msync(written, LENGTH, MS_SYNC) != 0)
        return perror("msync"), 1;
    munmap(written, LENGTH);

    char *seen = mapped(words[1], O_RDONLY, PROT_READ);
    if (seen == MAP_FAILED)
        return perror("map for reading"), 1;
    for (int i = 0; i < LENGTH; i++)
        if (seen[i] != (char)('a' + i % 23))
            return fprintf(stderr, "byte %d differs\n", i), 1;
    puts("mapped");
    return 0;
}
