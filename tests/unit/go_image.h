/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A minimal ELF file with the function table (pclntab) of a Go program. It has no code, but claims
 * to have this, at GO_TEXT:
 *
 *	0x00	main.plain	/a.go:10, from 0x10 on :11; begins in line 9
 *	0x20	main.outer[go.shape.int]	/a.go:20; begins in line 19
 *	0x28	  main.middle	inlined there, /b.go:30, begins in line 29
 *	0x30	    main.inner	inlined in that, /b.go:40; begins in line 39
 *	0x40	main.outer[go.shape.int] again
 *	0x60	main.(*T).M	a wrapper
 *	0x80	end
 */
#ifndef STACKBEAT_TEST_GO_IMAGE_H
#define STACKBEAT_TEST_GO_IMAGE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define GO_BASE 0x400000u
#define GO_TEXT 0x500000u
#define GO_TEXT_SIZE 0x80u
#define GO_WRAPPER 22u
#define GO_MAGIC_1_16 0xfffffffau
#define GO_MAGIC_1_18 0xfffffff0u
#define GO_MAGIC_1_20 0xfffffff1u

struct go_options {
	uint32_t magic;
	unsigned int trees, sections; /* words of the module data */
	bool has_section_headers;
	bool has_relocations; /* the module data is filled by them */
	bool circular; /* the call of main.middle is where main.inner is */
	const char *name; /* instead of main.outer[go.shape.int]; may be NULL */
	bool is_32_bit; /* without the two above */
};

struct go_image {
	unsigned char bytes[8192];
	size_t size;
	/* Offsets in `bytes`. */
	size_t header, names, units, files, values, functions, trees, sections, module, relocations;
};

static const struct go_options go_1_18 = {GO_MAGIC_1_18, 38, 39, false, false, false, NULL, false};
static const struct go_options go_1_20 = {GO_MAGIC_1_20, 40, 41, false, false, false, NULL, false};
static const struct go_options go_1_26 = {GO_MAGIC_1_20, 40, 42, false, false, false, NULL, false};
static const struct go_options go_1_27 = {GO_MAGIC_1_20, 43, 45, false, false, false, NULL, false};

static inline void go_put(struct go_image *image, const void *bytes, size_t size)
{
	if (size > sizeof(image->bytes) - image->size)
		abort();
	memcpy(image->bytes + image->size, bytes, size);
	image->size += size;
}

static inline void go_put_u32(struct go_image *image, uint32_t value)
{
	go_put(image, &value, sizeof(value));
}

static inline size_t go_word(const struct go_options *options)
{
	return options->is_32_bit ? 4 : 8;
}

static inline void go_put_words(struct go_image *image, const struct go_options *options,
				const uint64_t *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		go_put(image, &words[i], go_word(options));
}

/* Returns the offset of the string from the start of its table. */
static inline uint32_t go_put_string(struct go_image *image, size_t table, const char *string)
{
	size_t at = image->size;

	go_put(image, string, strlen(string) + 1);
	return (uint32_t)(at - table);
}

static inline size_t go_align(struct go_image *image)
{
	while (image->size % 8)
		go_put(image, "", 1);
	return image->size;
}

/* Puts pairs (value, bytes of code), ended by 0 bytes. Returns the offset in the value table. */
static inline uint32_t go_put_values(struct go_image *image, const int (*pairs)[2])
{
	uint32_t at = (uint32_t)(image->size - image->values);
	int value = -1;

	for (; (*pairs)[1]; pairs++) {
		int delta = (*pairs)[0] - value;
		/* All deltas fit into one byte. */
		unsigned char bytes[2] = {(unsigned char)(delta < 0 ? -2 * delta - 1 : 2 * delta),
					  (unsigned char)(*pairs)[1]};

		go_put(image, bytes, 2);
		value = (*pairs)[0];
	}
	go_put(image, "", 1);
	return at;
}

/* Puts a record with three sequences of PC data and four of function data. */
static inline void go_put_function(struct go_image *image, const struct go_options *options,
				   uint32_t entry, uint32_t name, uint32_t files, uint32_t lines,
				   uint32_t start_line, uint32_t calls, uint8_t kind, uint32_t tree)
{
	const unsigned char end[4] = {kind, 0, 0, 4};
	const uint32_t head[] = {entry, name, 0, 0, 0, files, lines, 3, 0 /* unit */};
	const uint32_t tail[] = {0, 0, calls, UINT32_MAX, UINT32_MAX, UINT32_MAX, tree};

	go_put(image, head, sizeof(head));
	if (options->magic != GO_MAGIC_1_18)
		go_put_u32(image, start_line);
	go_put(image, end, sizeof(end));
	go_put(image, tail, sizeof(tail));
}

static inline void go_put_call(struct go_image *image, const struct go_options *options,
			       int16_t parent, uint32_t name, uint32_t pc, uint32_t start_line)
{
	if (options->magic == GO_MAGIC_1_18) {
		go_put(image, &parent, sizeof(parent));
		go_put(image, "\0", 2);
		go_put_u32(image, 0);
		go_put_u32(image, 0);
		go_put_u32(image, name);
		go_put_u32(image, pc);
	} else {
		go_put_u32(image, 0);
		go_put_u32(image, name);
		go_put_u32(image, pc);
		go_put_u32(image, start_line);
	}
}

static inline void go_put_tables(struct go_image *image, const struct go_options *options)
{
	static const int file_a[][2] = {{0, 0x40}, {0, 0}},
			 file_ab[][2] = {{0, 8}, {1, 24}, {0, 32}, {0, 0}};
	static const int plain[][2] = {{10, 16}, {11, 16}, {0, 0}};
	static const int outer[][2] = {{20, 8}, {30, 8}, {40, 16}, {20, 32}, {0, 0}};
	static const int calls[][2] = {{-1, 8}, {0, 8}, {1, 16}, {-1, 32}, {0, 0}};
	uint32_t names[5], files[2], sequences[5], offsets[3];
	size_t pairs;

	image->names = image->size;
	names[0] = go_put_string(image, image->names, "main.plain");
	names[1] = go_put_string(image, image->names,
				 options->name ? options->name : "main.outer[go.shape.int]");
	names[2] = go_put_string(image, image->names, "main.middle");
	names[3] = go_put_string(image, image->names, "main.inner");
	names[4] = go_put_string(image, image->names, "main.(*T).M");
	image->files = go_align(image);
	files[0] = go_put_string(image, image->files, "/a.go");
	files[1] = go_put_string(image, image->files, "/b.go");
	image->units = go_align(image);
	go_put(image, files, sizeof(files));

	image->values = go_align(image);
	go_put(image, "", 1); /* no sequence is at 0 */
	sequences[0] = go_put_values(image, file_a);
	sequences[1] = go_put_values(image, file_ab);
	sequences[2] = go_put_values(image, plain);
	sequences[3] = go_put_values(image, outer);
	sequences[4] = go_put_values(image, calls);

	image->functions = pairs = go_align(image);
	image->size += 4 * 8;
	offsets[0] = (uint32_t)(image->size - pairs);
	go_put_function(image, options, 0, names[0], sequences[0], sequences[2], 9, 0, 0,
			UINT32_MAX);
	offsets[1] = (uint32_t)(image->size - pairs);
	go_put_function(image, options, 0x20, names[1], sequences[1], sequences[3], 19,
			sequences[4], 0, 0);
	offsets[2] = (uint32_t)(image->size - pairs);
	go_put_function(image, options, 0x60, names[4], sequences[0], sequences[2], 1, 0,
			GO_WRAPPER, UINT32_MAX);
	memcpy(image->bytes + pairs,
	       (const uint32_t[]){0, offsets[0], 0x20, offsets[1], 0x60, offsets[2], GO_TEXT_SIZE,
				  0},
	       32);

	image->trees = go_align(image);
	go_put_call(image, options, -1, names[2], options->circular ? 0x10 : 0, 29);
	go_put_call(image, options, 0, names[3], 8, 39);
}

static inline void go_put_header(struct go_image *image, const struct go_options *options)
{
	const unsigned char kind[4] = {0, 0, 1, (unsigned char)go_word(options)};

	image->header = go_align(image);
	go_put_u32(image, options->magic);
	go_put(image, kind, sizeof(kind));
	go_put_words(image, options, (const uint64_t[]){3, 2}, 2);
	image->size += 6 * go_word(options); /* go_fill_header() */
}

static inline void go_fill_header(struct go_image *image, const struct go_options *options)
{
	const size_t end = image->size;
	const uint64_t words[] = {
		GO_TEXT,
		image->names - image->header,
		image->units - image->header,
		image->files - image->header,
		image->values - image->header,
		image->functions - image->header,
	};

	image->size = image->header + 8 + 2 * go_word(options);
	go_put_words(image, options, words, 6);
	image->size = end;
}

static inline void go_put_module(struct go_image *image, const struct go_options *options)
{
	const uint64_t section[3] = {0, GO_TEXT_SIZE, GO_TEXT};
	uint64_t words[48] = {0};

	image->sections = go_align(image);
	go_put_words(image, options, section, 3);
	go_align(image);
	words[0] = GO_BASE + image->header;
	words[1] = GO_BASE + image->names;
	words[4] = GO_BASE + image->units;
	words[7] = GO_BASE + image->files;
	words[10] = GO_BASE + image->values;
	words[13] = words[16] = GO_BASE + image->functions;
	words[17] = words[18] = 4;
	words[22] = GO_TEXT;
	words[options->trees] = GO_BASE + image->trees;
	words[options->sections] = GO_BASE + image->sections;
	words[options->sections + 1] = words[options->sections + 2] = 1;
	image->module = image->size;
	go_put_words(image, options, words, 48);
}

/* Moves the addresses of the module data into relocations. */
static inline void go_put_relocations(struct go_image *image)
{
	Elf64_Dyn dynamic[3] = {{.d_tag = DT_RELA}, {.d_tag = DT_RELASZ}, {.d_tag = DT_NULL}};
	Elf64_Rela relocation = {.r_info = ELF64_R_INFO(0, R_X86_64_RELATIVE)};
	uint64_t word;

	image->relocations = image->size;
	for (size_t at = image->module; at < image->relocations; at += sizeof(word)) {
		memcpy(&word, image->bytes + at, sizeof(word));
		if (word < GO_BASE)
			continue;
		relocation.r_offset = GO_BASE + at;
		relocation.r_addend = (Elf64_Sxword)word;
		go_put(image, &relocation, sizeof(relocation));
		memset(image->bytes + at, 0, sizeof(word));
	}
	dynamic[0].d_un.d_ptr = GO_BASE + image->relocations;
	dynamic[1].d_un.d_val = image->size - image->relocations;
	go_put(image, dynamic, sizeof(dynamic));
}

static inline void go_put_section_headers(struct go_image *image, Elf64_Ehdr *elf)
{
	static const char names[] = "\0.gopclntab\0.shstrtab";
	Elf64_Shdr sections[3] = {0};
	size_t strings = image->size;

	go_put(image, names, sizeof(names));
	elf->e_shoff = go_align(image);
	elf->e_shentsize = sizeof(sections[0]);
	elf->e_shnum = 3;
	elf->e_shstrndx = 1;
	sections[2] = (Elf64_Shdr){.sh_name = 1,
				   .sh_type = SHT_PROGBITS,
				   .sh_addr = GO_BASE + image->header,
				   .sh_offset = image->header,
				   .sh_size = image->trees - image->header};
	sections[1] = (Elf64_Shdr){.sh_name = 12,
				   .sh_type = SHT_STRTAB,
				   .sh_offset = strings,
				   .sh_size = sizeof(names)};
	go_put(image, sections, sizeof(sections));
}

/* The headers of a program of 32 bits. */
static inline void go_put_narrow_headers(struct go_image *image)
{
	const Elf32_Ehdr elf = {
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS32, ELFDATA2LSB,
			    EV_CURRENT},
		.e_type = ET_EXEC,
		.e_machine = EM_386,
		.e_version = EV_CURRENT,
		.e_phoff = sizeof(elf),
		.e_ehsize = sizeof(elf),
		.e_phentsize = sizeof(Elf32_Phdr),
		.e_phnum = 1,
	};
	const Elf32_Phdr segment = {
		.p_type = PT_LOAD,
		.p_flags = PF_R | PF_W | PF_X,
		.p_vaddr = GO_BASE,
		.p_filesz = (uint32_t)image->size,
		.p_memsz = (uint32_t)image->size,
	};

	memcpy(image->bytes, &elf, sizeof(elf));
	memcpy(image->bytes + sizeof(elf), &segment, sizeof(segment));
}

static inline void go_image_make(struct go_image *image, const struct go_options *options)
{
	Elf64_Ehdr elf = {
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			    EV_CURRENT},
		.e_type = ET_EXEC,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_phoff = sizeof(elf),
		.e_ehsize = sizeof(elf),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = options->has_relocations ? 2 : 1,
	};
	Elf64_Phdr segments[2] = {
		{.p_type = PT_LOAD, .p_flags = PF_R | PF_W | PF_X, .p_vaddr = GO_BASE},
		{.p_type = PT_DYNAMIC},
	};

	memset(image, 0, sizeof(*image));
	image->size = sizeof(elf) + sizeof(segments);
	go_put_header(image, options);
	go_put_tables(image, options);
	go_fill_header(image, options);
	go_put_module(image, options);
	if (options->has_relocations)
		go_put_relocations(image);
	segments[1].p_vaddr = GO_BASE + image->size - 3 * sizeof(Elf64_Dyn);
	segments[1].p_filesz = 3 * sizeof(Elf64_Dyn);
	if (options->has_section_headers)
		go_put_section_headers(image, &elf);
	segments[0].p_filesz = segments[0].p_memsz = image->size;
	if (options->is_32_bit) {
		go_put_narrow_headers(image);
		return;
	}
	memcpy(image->bytes, &elf, sizeof(elf));
	memcpy(image->bytes + sizeof(elf), segments, sizeof(segments));
}

#endif
